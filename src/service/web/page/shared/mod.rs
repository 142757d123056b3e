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
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::html::Html;
use super::view::{self, PageView};
use super::{APPLICATIONS_MAX, digest, list};
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

/// The lists of the views that were asked for last.
pub struct Lists {
    hub: Arc<Hub>,
    offload: Offload,
    kept: Mutex<HashMap<PageView, Arc<Slot>>>,
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
    /// The filters and the rows.
    pub html: Html,
    /// The digest of all applications that were read; empty if there are more.
    pub digest: String,
    /// Pages with this list, see [`List::page`].
    pages: [OnceCell<Encoded>; 4],
}

impl Lists {
    /// Creates an empty collection.
    pub fn new(hub: Arc<Hub>, offload: Offload) -> Lists {
        Lists { hub, offload, kept: Mutex::default() }
    }

    /// Returns the list of a view, whatever application it explains. The caller was checked.
    pub async fn get(&self, view: &PageView) -> Arc<List> {
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
        let hub = self.hub.clone();
        // The list is kept, even if its first caller has gone.
        let render = move || {
            let list = Arc::new(render(&hub, &view));
            *lock(&slot.list) = Some(list.clone());
            drop(rendering);
            list
        };
        self.offload.run(OffloadedWork::Page, render).await
    }

    /// Returns where long work is done.
    pub fn offload(&self) -> &Offload {
        &self.offload
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
        let pages = self.pages.iter().filter_map(OnceCell::get);
        self.html.len() + pages.map(|(page, _)| page.len()).sum::<usize>()
    }

    /// Returns a whole page with this list, which `build` makes for the first caller, as gzip if
    /// the callers read it. There is one for callers in a session and one for others.
    pub async fn page(
        self: &Arc<List>,
        offload: &Offload,
        (has_session, is_gzip): (bool, bool),
        build: impl FnOnce(&List) -> String + Send + 'static,
    ) -> Encoded {
        let list = self.clone();
        let build = || {
            offload.run(OffloadedWork::Render, move || {
                gzip::encoded(Bytes::from(build(&list)), is_gzip)
            })
        };
        let place = usize::from(has_session) + 2 * usize::from(is_gzip);
        self.pages[place].get_or_init(build).await.clone()
    }
}

fn render(hub: &Hub, view: &PageView) -> List {
    let (seen, begun) = (hub.seen(), Instant::now());
    let namespace = Some(view.namespace.as_str()).filter(|name| !["", "-"].contains(name));
    let found = hub.list(namespace, None, &BTreeSet::new(), APPLICATIONS_MAX + 1);
    let is_cut = APPLICATIONS_MAX < found.len();
    let shown = found.iter().take(APPLICATIONS_MAX);
    let mut apps: Vec<v1::Application> =
        shown.map(|entry| convert::application(&entry.app, &entry.head)).collect();
    // Of a part of the applications, a digest says nothing.
    let digest = if is_cut { String::new() } else { digest::of(&apps) };
    view::sort(&mut apps);
    let mut html = Html::default();
    list::add(&mut html, view, &apps);
    if is_cut {
        let markup = r#"<p class="none">There are more applications than this page reads: {}.</p>"#;
        html.fill(markup, &[&APPLICATIONS_MAX]);
    }
    List { seen, begun, html, digest, pages: Default::default() }
}

#[cfg(test)]
mod tests;
