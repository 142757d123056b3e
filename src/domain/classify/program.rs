//! The tables for errors of programs: helm, Redis.
//! A row has: code, condition, class, name, and why.

use crate::domain::classify::finding::Class::{
    Blocked, Conflict, Dependency, Fatal, Interrupted, Transient,
};
use crate::domain::classify::row::When::{Always, DeadlinePassed};
use crate::domain::classify::row::{Row, rows};

/// By the first word of the reply.
pub const REDIS: &[Row] = rows! {
    "connection_lost"  Always  Transient  "redis.connection-lost"
        "the connection broke; a write may have been applied";
    "LOADING"          Always  Transient  "redis.loading"
        "Redis is starting";
    "CLUSTERDOWN"      Always  Transient  "redis.clusterdown"
        "the cluster has no majority now";
    "READONLY"         Always  Transient  "redis.readonly"
        "the server is a replica now: a failover is under way";
    "MASTERDOWN"       Always  Transient  "redis.masterdown"
        "the master of the server is away";
    "TRYAGAIN"         Always  Transient  "redis.tryagain"
        "slots are being moved";
    "OOM"              Always  Blocked    "redis.oom"
        "the memory of Redis is used up"
        remedy "give Redis more memory, or free some of it";
    "NOAUTH"           Always  Blocked    "redis.noauth"
        "the caller is not known"
        remedy "give the password of Redis";
    "NOPERM"           Always  Blocked    "redis.noperm"
        "the caller may not do this"
        remedy "grant the permission in the ACL of Redis";
    "WRONGTYPE"        Always  Fatal      "redis.wrongtype"
        "the key has another type than the worker expects";
};

/// By a part of the message.
pub const HELM: &[Row] = rows! {
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
        "helm did not reach the cluster";
};
