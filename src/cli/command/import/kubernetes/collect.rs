//! The facts of a document: each of its objects ends as a status, as a part of one, or in a note.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cli::command::import::cluster::ClusterArgs;
use crate::cli::command::import::facts::{
    Applications, ImportFacts, Placed, SetFacts, UnitFacts, not_imported,
};
use crate::cli::command::import::kubernetes::entry::{ClusterObject, Id};
use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::name::taken;
use crate::cli::command::import::work::WorkFacts;
use crate::cli::render::time;
use crate::domain::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX};
use crate::domain::message::cut_bytes;
use crate::proto::v1::need::Object as NeededObject;
use crate::proto::v1::{ApplicationNeed, Need, StatusKind, StatusReport};

/// Nodes are units of one application: what is asked is how many there are that work.
const NODES: &str = "nodes";

/// Owners of owners that are followed.
const OWNERS_MAX: usize = 8;

/// A workload says less than its pods do among equal levels, and a pod less than its containers.
const LESS_SAID: i32 = -1;

/// Kinds that have no health.
const WITHOUT_HEALTH: [&str; 38] = [
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ControllerRevision",
    "DeviceClass",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "Lease",
    "LeaseCandidate",
    "LimitRange",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "NodeMetrics",
    "PodMetrics",
    "PodTemplate",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceQuota",
    "ResourceSlice",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Secret",
    "ServiceAccount",
    "ServiceCIDR",
    "StorageClass",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Kinds that are shown only when they are not well: there are many of them, and each is well
/// almost always.
const SHOWN_IF_NOT_WELL: [&str; 7] = [
    "APIService",
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PodDisruptionBudget",
    "Service",
    "ValidatingAdmissionPolicy",
];

/// The kinds that stand for their pods.
const WORKLOADS: [&str; 5] = ["DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"];

/// Returns whether objects of a kind have no health.
pub fn has_no_health(kind: &str) -> bool {
    WITHOUT_HEALTH.contains(&kind)
}

/// The objects of a document.
#[derive(Debug, Default)]
pub struct Collected {
    /// The objects with a health.
    pub entries: Vec<ClusterObject>,
    /// Number of objects that no status shows, by kind and why.
    pub unshown: BTreeMap<String, usize>,
}

impl Collected {
    /// Returns the facts. The namespaces of a named cluster begin with its name.
    pub fn facts(mut self, cluster: &ClusterArgs) -> ImportFacts {
        let entries = std::mem::take(&mut self.entries);
        let index = ObjectIndex::of(&entries);
        let mut namespaces: BTreeMap<String, Applications> = BTreeMap::new();
        let (mut unnamed, mut doubled) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for entry in &entries {
            if let Some(why) = index.unshown(entry) {
                *self.unshown.entry(why).or_default() += 1;
                continue;
            }
            let namespace = cluster.namespace(&entry.id.namespace);
            let place = namespace.zip(index.application(entry));
            let Some((namespace, application)) = place else {
                unnamed.push(in_words(&entry.id));
                continue;
            };
            let unit = unit(&entry.id);
            if !seen.insert((namespace.clone(), application.clone(), unit.clone())) {
                doubled.push(in_words(&entry.id));
                continue;
            }
            let statuses = index.statuses(entry, cluster, &application);
            let set = SetFacts { component: None, statuses };
            let application = namespaces.entry(namespace).or_default().entry(application);
            let work = WorkFacts::default();
            application.or_default().units.push(UnitFacts { name: unit, set, work });
        }
        let mut notes = Vec::new();
        notes.extend(not_imported("without a name that Bellwether can have", &unnamed));
        notes.extend(not_imported("there twice", &doubled));
        ImportFacts {
            applications: Placed::Apart(namespaces),
            notes,
            unshown: sentence(&self.unshown),
            ..ImportFacts::default()
        }
    }
}

/// What the objects of a document are to each other.
struct ObjectIndex<'e> {
    entries: HashMap<&'e Id, &'e ClusterObject>,
    /// The newest job of each owner.
    newest: HashMap<&'e Id, &'e Id>,
    /// Kinds of which an object has a status.
    kinds_with_status: BTreeSet<&'e str>,
}

impl<'e> ObjectIndex<'e> {
    fn of(entries: &'e [ClusterObject]) -> ObjectIndex<'e> {
        let mut newest: HashMap<&Id, &ClusterObject> = HashMap::new();
        for job in entries.iter().filter(|entry| entry.id.kind == "Job") {
            let Some(owner) = &job.owner else { continue };
            let known = newest.entry(owner).or_insert(job);
            if known.created < job.created {
                *known = job;
            }
        }
        let with_status = entries.iter().filter(|entry| entry.has_status);
        ObjectIndex {
            entries: entries.iter().map(|entry| (&entry.id, entry)).collect(),
            newest: newest.into_iter().map(|(owner, job)| (owner, &job.id)).collect(),
            kinds_with_status: with_status.map(|entry| entry.id.kind.as_str()).collect(),
        }
    }

    /// Returns why no status shows an object; `None` if one does.
    fn unshown(&self, entry: &ClusterObject) -> Option<String> {
        let kind = entry.id.kind.as_str();
        let owner = entry.owner.as_ref();
        let owner_is_there = owner.is_some_and(|owner| self.entries.contains_key(owner));
        let is_owned_by = |kind: &str| owner.is_some_and(|owner| owner.kind == kind);
        let why = match kind {
            "ReplicaSet" if owner_is_there => "with its owner",
            "ReplicaSet" if entry.is_empty => "of an old version",
            "Pod" if is_owned_by("Job") && owner_is_there && entry.has_ended => "of a Job",
            "Job" if owner.is_some_and(|owner| self.newest.get(owner) != Some(&&entry.id)) => {
                "before the newest one"
            }
            _ if SHOWN_IF_NOT_WELL.contains(&kind) && entry.verdict.is_well() => "well",
            _ if entry.verdict.reason == "HealthUnknown"
                && !self.kinds_with_status.contains(kind) =>
            {
                "without a status"
            }
            _ => return None,
        };
        Some(format!("{kind} {why}"))
    }

    /// Returns the application of an object: by its labels, by those of its topmost owner, or the
    /// name of that owner.
    fn application(&self, entry: &ClusterObject) -> Option<String> {
        if entry.id.kind == "Node" && entry.id.namespace.is_empty() {
            return Some(NODES.to_string());
        }
        if let Some(label) = &entry.label {
            return taken(label);
        }
        let mut top = entry;
        for _ in 0..OWNERS_MAX {
            let Some(owner) = &top.owner else { break };
            match self.entries.get(owner) {
                Some(owner) => top = owner,
                None => return taken(name_of_missing(owner, entry.hash.as_deref())),
            }
        }
        taken(top.label.as_ref().unwrap_or(&top.id.name))
    }

    fn statuses(
        &self,
        entry: &ClusterObject,
        cluster: &ClusterArgs,
        own: &str,
    ) -> Vec<StatusReport> {
        let mut whole = report("", &entry.verdict);
        if WORKLOADS.contains(&entry.id.kind.as_str()) || !entry.containers.is_empty() {
            whole.priority = LESS_SAID;
        }
        let labels = entry.failures.iter().map(|(name, n)| (name.to_string(), n.to_string()));
        whole.labels.extend(labels);
        for (of, name) in &entry.waits_for {
            let id = Id { namespace: of.clone(), kind: entry.id.kind.clone(), name: name.clone() };
            let needed = self.entries.get(&id).and_then(|needed| self.application(needed));
            let application = needed.or_else(|| taken(name));
            let place = cluster.namespace(&id.namespace).zip(application);
            if let Some((namespace, application)) = place.filter(|(_, name)| name != own) {
                let need = ApplicationNeed { namespace, application, ..ApplicationNeed::default() };
                whole.needs.push(Need { object: Some(NeededObject::Application(need)) });
            }
        }
        whole.needs.retain(|need| !self.is_bound_claim(need));
        let mut statuses = vec![whole];
        for (name, verdict) in &entry.containers {
            statuses.extend(taken(name).map(|component| report(&component, verdict)));
        }
        statuses
    }

    /// Returns whether a need is a claim that the document shows as bound.
    fn is_bound_claim(&self, need: &Need) -> bool {
        let Some(NeededObject::Outside(words)) = &need.object else { return false };
        let claim = words.strip_prefix("pvc ").and_then(|name| name.split_once('/'));
        claim.is_some_and(|(namespace, name)| {
            let (namespace, name) = (namespace.to_string(), name.to_string());
            let id = Id { namespace, kind: "PersistentVolumeClaim".to_string(), name };
            self.entries.get(&id).is_some_and(|claim| claim.verdict.is_well())
        })
    }
}

/// Returns the name of the topmost owner of an object, whose own owner is not in the document: the
/// name of a ReplicaSet is that of its Deployment and a hash, that of a Job the name of its
/// CronJob and the minute of its run.
fn name_of_missing<'i>(owner: &'i Id, hash: Option<&str>) -> &'i str {
    let stem = owner.name.rsplit_once('-');
    match (owner.kind.as_str(), stem) {
        ("ReplicaSet", Some((stem, end))) if Some(end) == hash => stem,
        ("Job", Some((stem, end))) if 8 <= end.len() && end.bytes().all(|b| b.is_ascii_digit()) => {
            stem
        }
        _ => &owner.name,
    }
}

/// Returns the unit: the name of a pod or a node, `deployment/web` for other kinds.
fn unit(id: &Id) -> String {
    match id.kind.as_str() {
        "Pod" | "Node" => id.name.clone(),
        kind => {
            let name = format!("{}/{}", kind.to_lowercase(), id.name);
            cut_bytes(&name, NAME_BYTES_MAX).to_string()
        }
    }
}

fn report(component: &str, verdict: &Verdict) -> StatusReport {
    let cut = |text: &str| cut_bytes(text, MESSAGE_BYTES_MAX).to_string();
    StatusReport {
        component: component.to_string(),
        kind: StatusKind::Pull.into(),
        level: verdict.level.into(),
        reason: verdict.reason.clone(),
        message: cut(&verdict.message),
        action: cut(&verdict.action),
        check: cut(&verdict.field),
        needs: verdict.needs.clone(),
        observe_time: verdict.since.map(time::to_wire),
        since_unknown: verdict.since.is_none(),
        ..StatusReport::default()
    }
}

fn in_words(id: &Id) -> String {
    let Id { namespace, kind, name } = id;
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Formats `objects that no status shows: 30 (ConfigMap 24, Secret 3, Service well 3)`.
fn sentence(counts: &BTreeMap<String, usize>) -> Option<String> {
    let sum: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    (0 < sum).then(|| format!("objects that no status shows: {sum} ({})", each.join(", ")))
}
