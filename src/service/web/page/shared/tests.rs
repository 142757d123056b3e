//! Lists of a hub that the test feeds.

use futures_util::future::join_all;

use super::*;
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::store::{Bucket, Change, Epoch, Observer, Position};
use crate::telemetry::Telemetry;
use crate::watch::Limits;

struct Case {
    hub: Arc<Hub>,
    telemetry: Telemetry,
    lists: Arc<Lists>,
    position: u64,
}

impl Case {
    fn new() -> Case {
        let epoch = Epoch { store_id: 1, losses: 0 };
        let hub = Arc::new(Hub::new(epoch, 1, false, Limits::default()));
        let telemetry = Telemetry::local("1").unwrap();
        let offload = Offload::new(1, telemetry.metrics().clone());
        let lists = Arc::new(Lists::new(hub.clone(), offload));
        Case { hub, telemetry, lists, position: 0 }
    }

    /// Commits a level of an application.
    fn set(&mut self, app: &str, level: Level) {
        self.position += 1;
        let mut head = Head::empty(Revision(self.position));
        head.deleted = false;
        Arc::make_mut(&mut head.summary).level = level;
        self.hub.on_change(&Change {
            bucket: Bucket::default(),
            position: Position(self.position),
            app: AppName::new("default", app).unwrap(),
            head: Arc::new(head),
            packed: None,
            transition: None,
        });
    }

    /// Returns how many lists were rendered.
    fn rendered(&self) -> u64 {
        let text = self.telemetry.prometheus().text();
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("bellwether_offloaded_total{work=\"page\"} "));
        count.unwrap().parse().unwrap()
    }
}

/// Returns no facts.
async fn none(_rows: Vec<AppKey>, _has_marks: bool) -> Facts {
    Facts::default()
}

/// Returns for whom a page is.
fn of(is_gzip: bool, authority: &str) -> PageOf {
    PageOf { has_session: false, is_gzip, authority: authority.into() }
}

fn view(search: &str) -> PageView {
    PageView { search: search.into(), ..PageView::default() }
}

#[tokio::test(start_paused = true)]
async fn one_list_is_rendered_for_all_who_ask_for_the_same() {
    let mut case = Case::new();
    case.set("web", Level::Blocked);
    let asked: Vec<PageView> =
        (0..16).map(|n| PageView { why: format!("default/{n}"), ..PageView::default() }).collect();
    let found = join_all(asked.iter().map(|view| case.lists.get(view, none))).await;
    assert!(found.iter().all(|list| Arc::ptr_eq(list, &found[0])));
    assert!(found[0].html.as_str().contains("data-key=\"default/web\""));
    assert_eq!(case.rendered(), 1);
    case.lists.get(&view("other"), none).await;
    assert_eq!(case.rendered(), 2, "another view is another list");
    let pages = found.iter().map(|list| {
        list.page(case.lists.offload(), of(true, ""), |list| list.html.as_str().repeat(2))
    });
    let pages = join_all(pages).await;
    assert!(pages.iter().all(|(page, _)| page.as_ptr() == pages[0].0.as_ptr()), "bytes are shared");
}

#[tokio::test(start_paused = true)]
async fn callers_at_another_host_have_another_page_and_few_are_kept() {
    let case = Case::new();
    let list = case.lists.get(&PageView::default(), none).await;
    for n in 0..3 * PAGES_MAX {
        let host = format!("host-{n}");
        let (said, of) = (host.clone(), of(false, &host));
        let page = list.page(case.lists.offload(), of, move |_| said).await;
        assert_eq!(page.0, host.as_bytes(), "no page names the host of another caller");
    }
    assert_eq!(lock(&list.pages).len(), PAGES_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_each_change_that_was_there_when_it_was_asked_for() {
    let mut case = Case::new();
    let all = PageView::default();
    let shown = |list: &List, app: &str| {
        list.html.as_str().contains(&format!("data-key=\"default/{app}\""))
    };
    for n in 0..20 {
        let app = format!("app-{n}");
        // A list that is being rendered may lack the change.
        let (lists, view) = (case.lists.clone(), all.clone());
        let earlier = tokio::spawn(async move { lists.get(&view, none).await });
        tokio::task::yield_now().await;
        case.set(&app, Level::Active);
        assert!(shown(&*case.lists.get(&all, none).await, &app), "{app}");
        earlier.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_used_for_a_second() {
    let case = Case::new();
    let all = PageView::default();
    case.lists.get(&all, none).await;
    tokio::time::advance(AGE_MAX - Duration::from_millis(1)).await;
    case.lists.get(&all, none).await;
    assert_eq!(case.rendered(), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    case.lists.get(&all, none).await;
    assert_eq!(case.rendered(), 2, "the ages that it shows are old");
}

#[tokio::test(start_paused = true)]
async fn few_lists_are_kept() {
    let case = Case::new();
    for n in 0..3 * LISTS_MAX {
        case.lists.get(&view(&n.to_string()), none).await;
    }
    assert_eq!(lock(&case.lists.kept).len(), LISTS_MAX);
    tokio::time::advance(AGE_MAX).await;
    case.lists.get(&view("one more"), none).await;
    assert_eq!(lock(&case.lists.kept).len(), 1);
    for n in 0..20 {
        let list = case.lists.get(&view(&n.to_string()), none).await;
        let large = |_: &List| "x".repeat(1 << 20);
        list.page(case.lists.offload(), of(false, ""), large).await;
    }
    let bytes: usize = lock(&case.lists.kept).values().map(|slot| slot.bytes()).sum();
    assert!(bytes <= BYTES_MAX + (2 << 20), "{bytes}");
}
