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
pub(in crate::domain) const GRPC: &[Row] = rows! {
    "CANCELLED"            OwnShutdown        Interrupted   "grpc.cancelled.own-shutdown"
        "we cancelled it to shut down: the work continues where it stopped";
    "CANCELLED"            Always             Transient     "grpc.cancelled"
        "another client cancelled it";
    "UNKNOWN"              Always             Unclassified  "grpc.unknown"
        "UNKNOWN says nothing: retried within bounds";
    "INVALID_ARGUMENT"     OurInput           Fatal         "grpc.invalid-argument.ours"
        "we built the request ourselves: it is wrong however often it is sent";
    "INVALID_ARGUMENT"     Always             Blocked       "grpc.invalid-argument"
        "it is wrong whatever the state of the system, and a person gave it"
        remedy "correct the configuration that this was made from";
    "DEADLINE_EXCEEDED"    Always             Transient     "grpc.deadline-exceeded"
        "no answer in time; it may have been applied: look before trying again";
    "NOT_FOUND"            Gone               TargetGone    "grpc.not-found.gone"
        "its owner reports, with a registered reason, that the target is gone";
    "NOT_FOUND"            Always             Dependency    "grpc.not-found"
        "it does not exist yet, or not any more: the answer does not say which";
    "ALREADY_EXISTS"       Always             Conflict      "grpc.already-exists"
        "another writer created it: read it and decide again";
    "PERMISSION_DENIED"    Always             Blocked       "grpc.permission-denied"
        "the caller may not do this"
        remedy "grant the permission, or correct the credentials";
    "UNAUTHENTICATED"      Always             Blocked       "grpc.unauthenticated"
        "the caller is not known"
        remedy "give valid credentials";
    "RESOURCE_EXHAUSTED"   OwnRequest         Fatal         "grpc.resource-exhausted.own-request"
        "our own message is too large: it stays so";
    "RESOURCE_EXHAUSTED"   Quota              Blocked       "grpc.resource-exhausted.quota"
        "a quota is used up, and only a person can raise it"
        remedy "raise the quota, or free some of it";
    "RESOURCE_EXHAUSTED"   Always             Throttled     "grpc.resource-exhausted"
        "it is alive and asks for less load";
    "FAILED_PRECONDITION"  MachineResolvable  Dependency    "grpc.failed-precondition.machine"
        "what it needs will come without a person";
    "FAILED_PRECONDITION"  Always             Blocked       "grpc.failed-precondition"
        "the system is not in the state that this needs"
        remedy "bring the system into the state that this needs";
    "ABORTED"              Unanswered         Transient     "grpc.aborted.transport"
        "a connection was aborted, so there was no conflict";
    "ABORTED"              Always             Conflict      "grpc.aborted"
        "another writer was faster: read again and decide again";
    "OUT_OF_RANGE"         Local              Transient     "grpc.out-of-range.local"
        "the answer ended too early: that says nothing about the target";
    "OUT_OF_RANGE"         Always             Dependency    "grpc.out-of-range"
        "it is not there yet";
    "UNIMPLEMENTED"        Always             Blocked       "grpc.unimplemented"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "INTERNAL"             Always             Unclassified  "grpc.internal"
        "INTERNAL often hides something passing: retried within bounds";
    "UNAVAILABLE"          Always             Transient     "grpc.unavailable"
        "it is away for now";
    "DATA_LOSS"            Always             Fatal         "grpc.data-loss"
        "its owner says that data is lost or corrupt";
};

/// By the status, or by the failure that prevented one.
pub(in crate::domain) const HTTP: &[Row] = rows! {
    "connect_refused"   Always                      Transient     "http.connect-refused"
        "no server listens there now";
    "connection_reset"  Always                      Transient     "http.connection-reset"
        "the connection broke";
    "dns"               Always                      Transient     "http.dns"
        "the name was not found now";
    "tls_handshake"     Always                      Transient     "http.tls-handshake"
        "the connection was not made";
    "400"               OurInput                    Fatal         "http.400.ours"
        "we built the request ourselves: it is wrong however often it is sent";
    "400"               Always                      Blocked       "http.400"
        "the request was refused as wrong, and a person gave what it was made from"
        remedy "correct the configuration that this was made from";
    "401"               Always                      Blocked       "http.401"
        "the caller is not known"
        remedy "give valid credentials";
    "403"               Always                      Blocked       "http.403"
        "the caller may not do this, or a quota is used up"
        remedy "grant the permission, or correct the credentials";
    "404"               Gone                        TargetGone    "http.404.gone"
        "its owner reports, with a registered reason, that the target is gone";
    "404"               Always                      Dependency    "http.404"
        "it does not exist yet, or not any more: the answer does not say which";
    "408"               Always                      Transient     "http.408"
        "it took too long";
    "409"               Always                      Conflict      "http.409"
        "another writer was faster: read again and decide again";
    "410"               Gone                        TargetGone    "http.410.gone"
        "its owner reports, with a registered reason, that the target is gone";
    "410"               Always                      Conflict      "http.410"
        "our copy is too old: list again and decide again";
    "412"               Always                      Conflict      "http.412"
        "it has changed: read again and decide again";
    "422"               OurInput                    Fatal         "http.422.ours"
        "we built the request ourselves: it is wrong however often it is sent";
    "422"               Always                      Blocked       "http.422"
        "the request was refused as wrong, and a person gave what it was made from"
        remedy "correct the configuration that this was made from";
    "425"               Always                      Transient     "http.425"
        "it was asked too early";
    "429"               Always                      Throttled     "http.429"
        "it is alive and asks for less load";
    "500"               Always                      Unclassified  "http.500"
        "500 often hides something passing: retried within bounds";
    "501"               Always                      Blocked       "http.501"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "502"               Always                      Transient     "http.502"
        "a proxy did not reach it";
    "503"               ReasonEnds("CHANNEL_FULL")  Throttled     "http.503.channel-full"
        "it is alive and cannot take more now";
    "503"               Always                      Transient     "http.503"
        "it is away for now";
    "504"               Always                      Transient     "http.504"
        "no answer in time; it may have been applied: look before trying again";
    "505"               Always                      Blocked       "http.505"
        "the two sides are of different versions"
        remedy "bring both sides to versions that go together";
    "507"               Quota                       Blocked       "http.507.quota"
        "a quota is used up, and only a person can raise it"
        remedy "raise the quota, or free some of it";
    "507"               Always                      Dependency    "http.507"
        "there is no room now";
};
