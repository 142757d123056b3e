//! The list of the page, rendered once for all who ask for the same at about the same time.
//!
//! ```text
//!  caller --> may it list the scope? --> Lists::get --> one rendering, beside the runtime
//! ```
//!
//! What a list shows depends on its view alone: who may list a scope may read all of it. So the
//! caller is checked first, and no list belongs to a caller. A list has every change that was
//! acknowledged before the request arrived, as a list of its own would have.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::figures::KeptFigures;
use super::group::Tally;
use super::html::Html;
use super::needs::Needs;
use super::past::{AppKey, KeptPasts};
use super::row::Facts;
use super::view::PageView;
use super::{APPLICATIONS_MAX, digest, headline, list};
use crate::proto::v1;
use crate::service::convert;
use crate::service::offload::Offload;
use crate::service::web::gzip::{self, Encoded};
use crate::sync::lock;
use crate::telemetry::OffloadedWork;
use crate::watch::{Coverage, Hub};

/// How long a list is used if nothing changes: it shows ages in seconds.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Bytes of all lists that are kept.
const BYTES_MAX: usize = 8 << 20;
/// Lists that are kept.
const LISTS_MAX: usize = 64;
/// Pages that are kept of one list, because a caller chooses the name of the host.
const PAGES_MAX: usize = 8;

/// The lists of the views that were asked for last.
pub struct Lists {
    hub: Arc<Hub>,
    offload: Offload,
    kept: Mutex<HashMap<PageView, Arc<Slot>>>,
    figures: KeptFigures,
    pasts: KeptPasts,
}

/// The place of a list.
#[derive(Default)]
struct Slot {
    /// Held while the list is rendered.
    rendering: Arc<tokio::sync::Mutex<()>>,
    list: Mutex<Option<Arc<List>>>,
}

/// A rendered list.
pub struct List {
    /// What the hub had before the list was read.
    seen: Coverage,
    begun: Instant,
    /// The controls and the rows.
    pub html: Html,
    /// The headline, as the content of its heading.
    pub headline: Html,
    /// The counts of all applications that were read.
    pub tally: Tally,
    /// What blocks, for callers who may all read the same. Empty until the first one asks.
    pub needs: OnceCell<Needs>,
    /// The digest of all applications that were read; empty if there are more.
    pub digest: String,
    /// Pages with this list, see [`List::page`].
    pages: Mutex<HashMap<PageOf, Arc<OnceCell<Encoded>>>>,
}

/// For whom a page with a list is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageOf {
    /// Whether the caller has a session, which the page can end.
    pub has_session: bool,
    /// Whether the caller reads gzip.
    pub is_gzip: bool,
    /// The host and port that the caller asked, which name the installation.
    pub authority: String,
}

impl Lists {
    /// Creates an empty collection.
    pub fn new(hub: Arc<Hub>, offload: Offload) -> Lists {
        let (kept, figures, pasts) =
            (Mutex::default(), KeptFigures::default(), KeptPasts::default());
        Lists { hub, offload, kept, figures, pasts }
    }

    /// Returns the list of a view, whatever application it explains. The caller was checked.
    /// `facts` reads what the rows of applications show beside them, with marks if there are any.
    pub async fn get<F: Future<Output = Facts>>(
        &self,
        view: &PageView,
        facts: impl FnOnce(Vec<AppKey>, bool) -> F,
    ) -> Arc<List> {
        let asked = self.hub.seen();
        let view = PageView { why: String::new(), ..view.clone() };
        let slot = self.slot(&view);
        if let Some(list) = slot.current(&asked) {
            return list;
        }
        let rendering = slot.rendering.clone().lock_owned().await;
        if let Some(list) = slot.current(&asked) {
            return list;
        }
        let (hub, own) = (self.hub.clone(), view.clone());
        let selected = self.offload.run(OffloadedWork::Render, move || select(&hub, &own)).await;
        let facts = facts(selected.rows(&view), selected.has_marks).await;
        // The list is kept, even if its first caller has gone.
        let render = move || {
            let list = Arc::new(render(selected, &view, &facts));
            *lock(&slot.list) = Some(list.clone());
            drop(rendering);
            list
        };
        self.offload.run(OffloadedWork::Page, render).await
    }

    /// Returns the pasts of applications that were asked for last.
    pub fn pasts(&self) -> &KeptPasts {
        &self.pasts
    }

    /// Returns where long work is done.
    pub fn offload(&self) -> &Offload {
        &self.offload
    }

    /// Returns the figures of applications that were asked for last.
    pub fn figures(&self) -> &KeptFigures {
        &self.figures
    }

    /// Returns the place of a view. Drops lists that are old or too many.
    fn slot(&self, view: &PageView) -> Arc<Slot> {
        let mut kept = lock(&self.kept);
        if let Some(slot) = kept.get(view) {
            return slot.clone();
        }
        kept.retain(|_, slot| 1 < Arc::strong_count(slot) || slot.is_fresh());
        while LISTS_MAX <= kept.len() || BYTES_MAX < kept.values().map(|slot| slot.bytes()).sum() {
            let unused = kept.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = unused.min_by_key(|(_, slot)| slot.begun()).map(|(view, _)| view.clone());
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
        kept.entry(view.clone()).or_default().clone()
    }
}

impl Slot {
    /// Returns the list if it has all that was seen, and is not old.
    fn current(&self, asked: &Coverage) -> Option<Arc<List>> {
        let list = lock(&self.list);
        let is_current = |list: &&Arc<List>| list.is_fresh() && list.seen.covers(asked);
        list.as_ref().filter(is_current).cloned()
    }

    fn is_fresh(&self) -> bool {
        lock(&self.list).as_ref().is_some_and(|list| list.is_fresh())
    }

    fn begun(&self) -> Option<Instant> {
        lock(&self.list).as_ref().map(|list| list.begun)
    }

    fn bytes(&self) -> usize {
        lock(&self.list).as_ref().map_or(0, |list| list.bytes())
    }
}

impl List {
    fn is_fresh(&self) -> bool {
        self.begun.elapsed() < AGE_MAX
    }

    fn bytes(&self) -> usize {
        let pages = lock(&self.pages);
        let pages = pages.values().filter_map(|page| page.get());
        self.html.len() + pages.map(|(page, _)| page.len()).sum::<usize>()
    }

    /// Returns a whole page with this list, which `build` makes for the first caller of its kind,
    /// as gzip if the callers read it.
    pub async fn page(
        self: &Arc<List>,
        offload: &Offload,
        of: PageOf,
        build: impl FnOnce(&List) -> String + Send + 'static,
    ) -> Encoded {
        let (list, is_gzip) = (self.clone(), of.is_gzip);
        let build = || {
            offload.run(OffloadedWork::Render, move || {
                gzip::encoded(Bytes::from(build(&list)), is_gzip)
            })
        };
        let place = {
            let mut pages = lock(&self.pages);
            match pages.len() < PAGES_MAX || pages.contains_key(&of) {
                true => pages.entry(of).or_default().clone(),
                false => Arc::default(),
            }
        };
        place.get_or_init(build).await.clone()
    }
}

/// Returns the namespace of a view; `None`: all.
fn scope_of(view: &PageView) -> Option<&str> {
    Some(view.namespace.as_str()).filter(|name| !["", "-"].contains(name))
}

/// The applications of a view, before they are rendered.
struct Selected {
    seen: Coverage,
    begun: Instant,
    /// In the order of the view.
    apps: Vec<v1::Application>,
    /// Whether there are more.
    is_cut: bool,
    has_marks: bool,
}

impl Selected {
    /// Returns the names of those that have a row.
    fn rows(&self, view: &PageView) -> Vec<AppKey> {
        let shown = self.apps.iter().filter(|app| view.has(app)).take(list::ROWS_MAX);
        shown.map(|app| (app.namespace.clone(), app.name.clone())).collect()
    }
}

fn select(hub: &Hub, view: &PageView) -> Selected {
    let (seen, begun) = (hub.seen(), Instant::now());
    let found = hub.list(scope_of(view), None, &BTreeSet::new(), APPLICATIONS_MAX + 1);
    let is_cut = APPLICATIONS_MAX < found.len();
    let shown = || found.iter().take(APPLICATIONS_MAX);
    let has_marks = shown().any(|entry| entry.kept().has_marks());
    let mut apps: Vec<v1::Application> = shown().map(|entry| convert::shown(entry)).collect();
    view.sort(&mut apps);
    Selected { seen, begun, apps, is_cut, has_marks }
}

fn render(selected: Selected, view: &PageView, facts: &Facts) -> List {
    let Selected { seen, begun, apps, is_cut, .. } = selected;
    // Of a part of the applications, a digest says nothing.
    let digest = if is_cut { String::new() } else { digest::of(&apps) };
    let tally = Tally::of(apps.iter());
    let mut html = Html::default();
    list::add(&mut html, view, &apps, facts);
    if is_cut {
        let markup = r#"<p class="none">There are more applications than this page reads: {}.</p>"#;
        html.fill(markup, &[&APPLICATIONS_MAX]);
    }
    let headline = headline::of(&tally);
    let (needs, pages) = (OnceCell::new(), Mutex::default());
    List { seen, begun, html, headline, tally, needs, digest, pages }
}

#[cfg(test)]
mod tests;
