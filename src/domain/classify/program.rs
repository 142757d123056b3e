//! The tables for errors of libraries and programs: exceptions of Python, helm, Redis.
//! A row has: code, condition, class, name, and why.

use crate::domain::classify::finding::Class::{
    Blocked, Conflict, Dependency, Fatal, Gone as TargetGone, Interrupted, Transient, Unclassified,
};
use crate::domain::classify::row::When::{Always, DeadlinePassed, Gone, OurInput};
use crate::domain::classify::row::{Row, rows};

/// By the exception with its package; `4xx` and `5xx` match every status of their hundred.
pub(in crate::domain) const PYTHON: &[Row] = rows! {
    "pebble.ConnectionError"              Always    Transient     "pebble.connection-error"
        "Pebble is not there: its container may be starting";
    "pebble.APIError/5xx"                 Always    Transient     "pebble.api-error.5xx"
        "Pebble failed inside";
    "pebble.APIError/empty"               Always    Transient     "pebble.api-error.empty"
        "an answer without a body is a proxy's, or was cut off";
    "pebble.APIError/4xx"                 OurInput  Fatal         "pebble.api-error.ours"
        "we built the request ourselves: it is wrong however often it is sent";
    "pebble.APIError/4xx"                 Always    Blocked       "pebble.api-error"
        "Pebble refused what a person configured"
        remedy "correct the configuration that this was made from";
    "pebble.TimeoutError"                 Always    Transient     "pebble.timeout-error"
        "the change continues: observe it before trying again";
    "pebble.ChangeError"                  Always    Unclassified  "pebble.change-error"
        "the change failed: retried within bounds";
    "pebble.ExecError"                    Always    Unclassified  "pebble.exec-error"
        "only the worker knows what the failure of its command means";
    "pebble.PathError/not-found"          Always    Dependency    "pebble.path-error.not-found"
        "the file is not there yet";
    "pebble.PathError/permission-denied"  Always    Blocked       "pebble.path-error.permission"
        "the file may not be touched"
        remedy "correct the permissions of the file";
    "pebble.ProtocolError"                Always    Unclassified  "pebble.protocol-error"
        "Pebble sent an unexpected answer: retried within bounds";
    "httpx.ConnectError"                  Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.ConnectTimeout"                Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.PoolTimeout"                   Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.ReadError"                     Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.ReadTimeout"                   Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.WriteError"                    Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.WriteTimeout"                  Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.RemoteProtocolError"           Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.LocalProtocolError"            Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.UnsupportedProtocol"           Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.InvalidURL"                    Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.DecodingError"                 Always    Fatal         "httpx.decoding-error"
        "the answer cannot be read, and will not be";
    "requests.ConnectionError"            Always    Transient     "requests.not-sent"
        "it was not sent, or the connection broke";
    "requests.ConnectTimeout"             Always    Transient     "requests.not-sent"
        "it was not sent, or the connection broke";
    "requests.Timeout"                    Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.ReadTimeout"                Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.ChunkedEncodingError"       Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.InvalidURL"                 Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.InvalidSchema"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.MissingSchema"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.InvalidHeader"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "lightkube.ConditionError"            Always    Unclassified  "lightkube.condition-error"
        "the condition cannot come true as it is: retried within bounds";
    "lightkube.ObjectDeleted"             Gone      TargetGone    "lightkube.object-deleted.gone"
        "its owner reports, with a registered reason, that the target is gone";
    "lightkube.ObjectDeleted"             Always    Dependency    "lightkube.object-deleted"
        "it does not exist any more, but may be created again";
    "lightkube.NotReadyError"             Always    Dependency    "lightkube.not-ready"
        "it is not ready yet";
    "lightkube.LoadResourceError"         Always    Fatal         "lightkube.load-resource"
        "our own manifest is not valid";
};

/// By the first word of the reply.
pub(in crate::domain) const REDIS: &[Row] = rows! {
    "connection_lost"  Always  Transient  "redis.connection-lost"
        "the connection broke; a write may have been applied";
    "LOADING"          Always  Transient  "redis.loading"
        "it is starting";
    "CLUSTERDOWN"      Always  Transient  "redis.clusterdown"
        "the cluster has no majority now";
    "READONLY"         Always  Transient  "redis.readonly"
        "it is a replica now: a failover is under way";
    "MASTERDOWN"       Always  Transient  "redis.masterdown"
        "its master is away";
    "TRYAGAIN"         Always  Transient  "redis.tryagain"
        "slots are being moved";
    "OOM"              Always  Blocked    "redis.oom"
        "its memory is used up"
        remedy "give Redis more memory, or free some of it";
    "NOAUTH"           Always  Blocked    "redis.noauth"
        "the caller is not known"
        remedy "give the password of Redis";
    "NOPERM"           Always  Blocked    "redis.noperm"
        "the caller may not do this"
        remedy "grant the permission in the ACL of Redis";
    "WRONGTYPE"        Always  Fatal      "redis.wrongtype"
        "the key has another type than we expect";
};

/// By a part of the message.
pub(in crate::domain) const HELM: &[Row] = rows! {
    "another operation"                    Always          Conflict     "helm.another-operation"
        "another operation holds the release: wait for it, then read again";
    "context canceled"                     Always          Interrupted  "helm.context-canceled"
        "helm was interrupted, which says nothing about its work: continue it";
    "has no deployed releases"             Always          Blocked      "helm.no-deployed-releases"
        "there is no release to upgrade"
        remedy "install the release, or roll it back to one that was deployed";
    "cannot reuse a name"                  Always          Blocked      "helm.name-in-use"
        "the name of the release is in use"
        remedy "choose another name, or uninstall what has it";
    "execution error at"                   Always          Blocked      "helm.render"
        "the chart does not render with these values"
        remedy "correct the values";
    "specifications of the schema"         Always          Blocked      "helm.schema"
        "the values do not follow the schema of the chart"
        remedy "correct the values";
    "field is immutable"                   Always          Blocked      "helm.immutable-field"
        "a field cannot be changed in place"
        remedy "recreate the object, or leave the field as it is";
    "timed out waiting for the condition"  DeadlinePassed  Fatal        "helm.timed-out.deadline"
        "the deadline of the work has passed";
    "timed out waiting for the condition"  Always          Dependency   "helm.timed-out"
        "what helm waits for may still come true";
    "cluster unreachable"                  Always          Transient    "helm.cluster-unreachable"
        "the cluster was not reached";
};
