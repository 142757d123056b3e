//! The tables for gRPC codes and HTTP statuses, as their specifications and users interpret them.
//! A row has: code, condition, class, name, and why.

use crate::domain::classify::finding::Class::{
    Blocked, Conflict, Dependency, Fatal, Gone as TargetGone, Interrupted, Throttled, Transient,
    Unclassified,
};
use crate::domain::classify::row::When::{
    Always, Gone, Local, MachineResolvable, OurInput, OwnRequest, OwnShutdown, Quota, ReasonEnds,
    Unanswered,
};
use crate::domain::classify::row::{Row, rows};

/// By the name of the code.
pub const GRPC: &[Row] = rows! {
    "CANCELLED"            OwnShutdown        Interrupted   "grpc.cancelled.own-shutdown"
        "the worker cancelled the call to shut down: the work continues where it stopped";
    "CANCELLED"            Always             Transient     "grpc.cancelled"
        "another client cancelled the call";
    "UNKNOWN"              Always             Unclassified  "grpc.unknown"
        "UNKNOWN says nothing about the cause";
    "INVALID_ARGUMENT"     OurInput           Fatal         "grpc.invalid-argument.ours"
        "the worker made the request itself, so every repeat is refused as well";
    "INVALID_ARGUMENT"     Always             Blocked       "grpc.invalid-argument"
        "a person gave the argument, which is wrong in every state of the system"
        remedy "correct the configuration that this was made from";
    "DEADLINE_EXCEEDED"    Always             Transient     "grpc.deadline-exceeded"
        "no answer came in time: look whether the target applied the request";
    "NOT_FOUND"            Gone               TargetGone    "grpc.not-found.gone"
        "the owner reports, with a registered reason, that the target is gone";
    "NOT_FOUND"            Always             Dependency    "grpc.not-found"
        "the target does not exist yet, or not any more: the answer does not say which";
    "ALREADY_EXISTS"       Always             Conflict      "grpc.already-exists"
        "another writer created the object: read the object and decide again";
    "PERMISSION_DENIED"    Always             Blocked       "grpc.permission-denied"
        "the caller may not do this"
        remedy "grant the permission, or correct the credentials";
    "UNAUTHENTICATED"      Always             Blocked       "grpc.unauthenticated"
        "the caller is not known"
        remedy "give valid credentials";
    "RESOURCE_EXHAUSTED"   OwnRequest         Fatal         "grpc.resource-exhausted.own-request"
        "the message of the worker is too large, and so is every repeat";
    "RESOURCE_EXHAUSTED"   Quota              Blocked       "grpc.resource-exhausted.quota"
        "a quota is used up, and only a person can raise it"
        remedy "raise the quota, or free some of it";
    "RESOURCE_EXHAUSTED"   Always             Throttled     "grpc.resource-exhausted"
        "the target is alive and asks for less load";
    "FAILED_PRECONDITION"  MachineResolvable  Dependency    "grpc.failed-precondition.machine"
        "what the call needs will come without a person";
    "FAILED_PRECONDITION"  Always             Blocked       "grpc.failed-precondition"
        "the system is not in the state that the call needs"
        remedy "bring the system into the state that the call needs";
    "ABORTED"              Unanswered         Transient     "grpc.aborted.transport"
        "a connection was aborted, so there was no conflict";
    "ABORTED"              Always             Conflict      "grpc.aborted"
        "another writer was faster: read again and decide again";
    "OUT_OF_RANGE"         Local              Transient     "grpc.out-of-range.local"
        "the answer ended too early, which says nothing about the target";
    "OUT_OF_RANGE"         Always             Dependency    "grpc.out-of-range"
        "the position does not exist yet";
    "UNIMPLEMENTED"        Always             Blocked       "grpc.unimplemented"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "INTERNAL"             Always             Unclassified  "grpc.internal"
        "INTERNAL often hides a short failure";
    "UNAVAILABLE"          Always             Transient     "grpc.unavailable"
        "the target is away for now";
    "DATA_LOSS"            Always             Fatal         "grpc.data-loss"
        "the owner says that data is lost or corrupt";
};

/// By the status, or by the failure that prevented one.
pub const HTTP: &[Row] = rows! {
    "connect_refused"   Always                      Transient     "http.connect-refused"
        "no server listens there now";
    "connection_reset"  Always                      Transient     "http.connection-reset"
        "the connection broke";
    "dns"               Always                      Transient     "http.dns"
        "the name was not found now";
    "tls_handshake"     Always                      Transient     "http.tls-handshake"
        "the connection was not made";
    "400"               OurInput                    Fatal         "http.400.ours"
        "the worker made the request itself, so every repeat is refused as well";
    "400"               Always                      Blocked       "http.400"
        "the target refused the request, which was made from what a person gave"
        remedy "correct the configuration that this was made from";
    "401"               Always                      Blocked       "http.401"
        "the caller is not known"
        remedy "give valid credentials";
    "403"               Always                      Blocked       "http.403"
        "the caller may not do this, or a quota is used up"
        remedy "grant the permission, or correct the credentials";
    "404"               Gone                        TargetGone    "http.404.gone"
        "the owner reports, with a registered reason, that the target is gone";
    "404"               Always                      Dependency    "http.404"
        "the target does not exist yet, or not any more: the answer does not say which";
    "408"               Always                      Transient     "http.408"
        "the target waited too long for the request";
    "409"               Always                      Conflict      "http.409"
        "another writer was faster: read again and decide again";
    "410"               Gone                        TargetGone    "http.410.gone"
        "the owner reports, with a registered reason, that the target is gone";
    "410"               Always                      Conflict      "http.410"
        "the copy of the worker is too old: list again and decide again";
    "412"               Always                      Conflict      "http.412"
        "the object has changed: read again and decide again";
    "422"               OurInput                    Fatal         "http.422.ours"
        "the worker made the request itself, so every repeat is refused as well";
    "422"               Always                      Blocked       "http.422"
        "the target refused the request, which was made from what a person gave"
        remedy "correct the configuration that this was made from";
    "425"               Always                      Transient     "http.425"
        "the request came too early";
    "429"               Always                      Throttled     "http.429"
        "the target is alive and asks for less load";
    "500"               Always                      Unclassified  "http.500"
        "500 often hides a short failure";
    "501"               Always                      Blocked       "http.501"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "502"               Always                      Transient     "http.502"
        "a proxy did not reach the target";
    "503"               ReasonEnds("CHANNEL_FULL")  Throttled     "http.503.channel-full"
        "the target is alive and cannot take more now";
    "503"               Always                      Transient     "http.503"
        "the target is away for now";
    "504"               Always                      Transient     "http.504"
        "no answer came in time: look whether the target applied the request";
    "505"               Always                      Blocked       "http.505"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "507"               Quota                       Blocked       "http.507.quota"
        "a quota is used up, and only a person can raise it"
        remedy "raise the quota, or free some of it";
    "507"               Always                      Dependency    "http.507"
        "the target has no room now";
};
