//! What blocks: evaluations of needs, shared by callers with equal rights, and their pages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::domain::name::AppName;
use crate::proto::v1;
use crate::service::Parts;
use crate::service::call::{Access, Reader};
use crate::service::code::{ApiError, Reason};
use crate::service::convert::{self, Page};
use crate::service::offload::Offload;
use crate::telemetry::OffloadedWork;
use crate::watch::Coverage;
use crate::watch::blockers::{Chain, EDGES_MAX, Evaluation, Listing};

/// How long an evaluation serves all callers with equal rights, unless an application changes: a
/// circle becomes a deadlock by time alone.
const FRESH_FOR: Duration = Duration::from_millis(200);

/// Pause between two evaluations, as a multiple of the time of the last one: they take at most a
/// fifth of one processor. A pause ends after [`FRESH_FOR`].
const PAUSE_FACTOR: u32 = 4;

/// How old the numbers of freed applications in an explanation may be.
const FREES_FRESH_FOR: Duration = Duration::from_secs(2);

/// How long the evaluation of a page is kept for the next one.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Evaluations that are kept, for different rights and for pages. One of 100,000 applications with
/// ten needs each takes some 30 MB.
const KEPT_MAX: usize = 8;

/// The evaluations of this process.
pub(super) struct Blockers {
    kept: Mutex<Kept>,
}

struct Kept {
    evaluations: Vec<Evaluated>,
    listings: Vec<Listed>,
    next_id: u64,
}

struct Evaluated {
    reader: Reader,
    at: Instant,
    /// How long it took.
    took: Duration,
    /// The changes that it has.
    seen: Coverage,
    evaluation: Arc<Evaluation>,
}

/// A list of which a caller has not read every page.
#[derive(Clone)]
struct Listed {
    id: u64,
    reader: Reader,
    at: Instant,
    evaluation: Arc<Evaluation>,
    listing: Arc<Listing>,
}

/// The place of a page: the number of the listing, and of its first row.
type Place = (u64, usize);

impl Blockers {
    pub(super) fn new() -> Blockers {
        // Another start than that of an earlier process, so that its tokens are refused.
        let epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let next_id = epoch.as_micros() as u64;
        let kept = Kept { evaluations: Vec::new(), listings: Vec::new(), next_id };
        Blockers { kept: Mutex::new(kept) }
    }

    /// Returns an evaluation for a reader: a kept one if it has every change that was acknowledged
    /// before the call, or is younger than `any_until`. One runs at a time; callers that waited for
    /// it share it.
    async fn evaluate(
        &self,
        parts: &Parts,
        offload: &Offload,
        reader: &Reader,
        any_until: Duration,
    ) -> Result<Arc<Evaluation>, ApiError> {
        let asked = parts.hub.seen();
        let mut kept = self.kept.lock().await;
        while let Some(found) = kept.evaluations.iter().find(|e| e.reader == *reader) {
            let age = found.at.elapsed();
            if age < any_until || age < FRESH_FOR && found.seen.covers(&asked) {
                return Ok(found.evaluation.clone());
            }
            let pause = FRESH_FOR.min(found.took * PAUSE_FACTOR).saturating_sub(age);
            if pause.is_zero() {
                break;
            }
            // Others go on meanwhile, and one of them may evaluate for this caller too.
            drop(kept);
            tokio::time::sleep(pause).await;
            kept = self.kept.lock().await;
        }
        let (hub, now, seen) = (parts.hub.clone(), parts.store.now(), parts.hub.seen());
        let (own, metrics) = (reader.clone(), parts.metrics.clone());
        let evaluated = offload.run(OffloadedWork::Blockers, move || {
            let begun = Instant::now();
            let evaluation = hub.evaluate(now, &|app| own.may_read(app));
            metrics.blockers_evaluated(begun.elapsed());
            evaluation.map(|evaluation| (evaluation, begun.elapsed()))
        });
        let (evaluation, took) = evaluated.await.map_err(|_too_many| {
            let text = format!(
                "the applications state more than {EDGES_MAX} needs; explain one of them instead"
            );
            ApiError::of_limit(Reason::LimitExceeded, text, "needs_total_max", EDGES_MAX)
        })?;
        kept.evaluations.retain(|e| e.reader != *reader && e.at.elapsed() < FREES_FRESH_FOR);
        kept.evaluations.truncate(KEPT_MAX - 1);
        let (reader, evaluation, at) = (reader.clone(), Arc::new(evaluation), Instant::now());
        let evaluated = Evaluated { reader, at, took, seen, evaluation: evaluation.clone() };
        kept.evaluations.insert(0, evaluated);
        Ok(evaluation)
    }

    /// Answers a `ListBlockers`.
    pub(super) async fn list(
        &self,
        parts: &Parts,
        offload: &Offload,
        request: Request<v1::ListBlockersRequest>,
    ) -> Result<Response<v1::ListBlockersResponse>, Status> {
        let (access, wire) = Access::open(request);
        let namespace = convert::list_blockers(&access, &wire)?;
        // What an application needs may be in any namespace.
        let reader = access.reader();
        parts.relay.as_ref().map_or(Ok(()), |relay| relay.whole(&reader))?;
        let asked = [namespace.as_deref().unwrap_or("-")];
        let page = Page::<Place>::open("ListBlockers", &asked, wire.page_size, &wire.page_token)?;
        let reader = access.reader();
        let (listed, first) = match page.after {
            Some((id, first)) => {
                let found = self.kept.lock().await.find(id, &reader);
                (found.ok_or_else(|| ApiError::page_token(&wire.page_token))?, first)
            }
            None => {
                let evaluation = self.evaluate(parts, offload, &reader, Duration::ZERO).await?;
                let evaluated = evaluation.clone();
                let list = move || Arc::new(evaluated.list(namespace));
                let listing = offload.run(OffloadedWork::Blockers, list).await;
                (self.kept.lock().await.number(reader, evaluation, listing), 0)
            }
        };
        let (of, count_max) = (listed.clone(), page.size + 1);
        let rows = move || of.evaluation.page(&of.listing, first, count_max);
        let rows = offload.run(OffloadedWork::Blockers, rows).await;
        let rows = rows.iter().enumerate();
        let rows = rows.map(|(n, row)| ((listed.id, first + n + 1), convert::blocker(row)));
        let (blockers, next_page_token) = page.fill(rows);
        let self_healing_count = convert::count(listed.listing.self_healing);
        if !next_page_token.is_empty() {
            self.kept.lock().await.keep(listed);
        }
        Ok(Response::new(v1::ListBlockersResponse {
            blockers,
            next_page_token,
            self_healing_count,
        }))
    }

    /// Returns the causes of one application, and the number of those that are not listed.
    pub(super) async fn causes(
        &self,
        parts: &Parts,
        offload: &Offload,
        (app, reader): (&AppName, &Reader),
    ) -> (Vec<v1::Cause>, i32) {
        let (hub, now, app, own) =
            (parts.hub.clone(), parts.store.now(), app.clone(), reader.clone());
        // A chain of thousands of applications takes milliseconds.
        let causes = move || hub.causes(&app, now, &|app| own.may_read(app));
        let Chain { lines, rest } = offload.run(OffloadedWork::Blockers, causes).await;
        let evaluation = match lines.iter().any(|line| line.is_root) {
            // The lines stand without the numbers.
            true => self.evaluate(parts, offload, reader, FREES_FRESH_FOR).await.ok(),
            false => None,
        };
        let causes = lines.iter().map(|line| {
            let counts = evaluation.as_ref().filter(|_| line.is_root && !line.is_repeated);
            let frees = counts.map_or(0, |evaluation| evaluation.freed_by(&line.object));
            convert::cause(line, frees)
        });
        (causes.collect(), convert::count(rest))
    }
}

impl Kept {
    /// Returns a list that is kept, for the reader that began it.
    fn find(&mut self, id: u64, reader: &Reader) -> Option<Listed> {
        self.listings.retain(|listed| listed.at.elapsed() < KEPT_FOR);
        let found = self.listings.iter().find(|l| l.id == id && l.reader == *reader);
        found.cloned()
    }

    /// Gives a list its number.
    fn number(
        &mut self,
        reader: Reader,
        evaluation: Arc<Evaluation>,
        listing: Arc<Listing>,
    ) -> Listed {
        self.next_id += 1;
        Listed { id: self.next_id, reader, at: Instant::now(), evaluation, listing }
    }

    /// Keeps a list for its next page. The oldest one makes room.
    fn keep(&mut self, listed: Listed) {
        if self.listings.iter().any(|kept| kept.id == listed.id) {
            return;
        }
        if KEPT_MAX <= self.listings.len() {
            self.listings.remove(0);
        }
        self.listings.push(listed);
    }
}
