//! The files beside the page: style sheet, script and icons. Each has a validator, so that a
//! browser that has one receives 304.

use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use xxhash_rust::xxh3::xxh3_64;

use super::served;
use crate::service::web::body::WebBody;
use crate::service::web::query::Query;

/// The style sheet.
pub const STYLE: &str = concat!(
    include_str!("style/base.css"),
    include_str!("style/list.css"),
    include_str!("style/panel.css"),
    include_str!("style/narrow.css"),
);
/// The script: its files share one scope.
pub const SCRIPT: &str = concat!(
    include_str!("script/begin.js"),
    include_str!("script/time.js"),
    include_str!("script/morph.js"),
    include_str!("script/order.js"),
    include_str!("script/state.js"),
    include_str!("script/copy.js"),
    include_str!("script/load.js"),
    include_str!("script/watch.js"),
    include_str!("script/keys.js"),
);

const ICONS: [(&str, &str); 5] = [
    ("fine", include_str!("icon/fine.svg")),
    ("error", include_str!("icon/error.svg")),
    ("blocked", include_str!("icon/blocked.svg")),
    ("silent", include_str!("icon/silent.svg")),
    ("stale", include_str!("icon/stale.svg")),
];

/// Answers the path of a file; `None` if there is none. `asked` are the headers of the request.
pub fn answer<B>(path: &str, query: &str, asked: &HeaderMap) -> Option<Response<WebBody<B>>> {
    let (text, kind) = match path {
        "/page.css" => (STYLE, "text/css; charset=utf-8"),
        "/page.js" => (SCRIPT, "text/javascript; charset=utf-8"),
        "/page.svg" => (icon(query), "image/svg+xml"),
        _ => return None,
    };
    // Weak: the compressed bytes differ from the plain ones.
    let tag = format!("W/\"{:016x}\"", xxh3_64(text.as_bytes()));
    let is_known = asked.get_all(IF_NONE_MATCH).iter().any(|known| has_tag(known, &tag));
    let mut response = served(if is_known { "" } else { text }, kind, "no-cache");
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    Some(response)
}

/// Returns whether a list of validators has a tag, compared weakly.
fn has_tag(known: &HeaderValue, tag: &str) -> bool {
    let known = known.to_str().unwrap_or_default().split(',').map(str::trim);
    let strong = tag.trim_start_matches("W/");
    known.into_iter().any(|one| one == "*" || one.trim_start_matches("W/") == strong)
}

/// Returns the icon that a query asks for; that of all well for any other.
fn icon(query: &str) -> &'static str {
    let asked = Query(query).text("is").unwrap_or_default();
    ICONS.iter().find(|(name, _)| *name == asked).unwrap_or(&ICONS[0]).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, query: &str, tag: Option<&str>) -> Response<WebBody<()>> {
        let mut headers = HeaderMap::new();
        headers.extend(tag.map(|tag| (IF_NONE_MATCH, HeaderValue::from_str(tag).unwrap())));
        answer(path, query, &headers).unwrap()
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        for path in ["/page.css", "/page.js", "/page.svg"] {
            let first = asked(path, "", None);
            assert_eq!(first.status(), StatusCode::OK);
            let tag = first.headers()[ETAG].to_str().unwrap().to_string();
            for (known, expected) in [
                (tag.as_str(), StatusCode::NOT_MODIFIED),
                (tag.trim_start_matches("W/"), StatusCode::NOT_MODIFIED),
                (&format!("\"other\", {tag}"), StatusCode::NOT_MODIFIED),
                ("\"other\"", StatusCode::OK),
            ] {
                let again = asked(path, "", Some(known));
                assert_eq!(again.status(), expected, "{path} {known}");
                let is_empty = matches!(again.body(), WebBody::Whole(None, _));
                assert_eq!(is_empty, expected == StatusCode::NOT_MODIFIED);
            }
        }
        let tags = ["is=error", "is=fine", "is=stale", "is=other"]
            .map(|query| asked("/page.svg", query, None).headers()[ETAG].clone());
        assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[1] == tags[3]);
    }

    #[test]
    fn the_files_are_small_and_name_no_other_host() {
        let all = [STYLE, SCRIPT].concat();
        assert!(all.len() < 70 << 10, "{}", all.len());
        assert!(!all.contains("http:") && !all.contains("https:") && !all.contains("innerHTML = "));
    }
}
