//! The forms of a caller that is not known, or may not read everything, as HTML.

use super::html::Html;
use super::view::PageView;

/// Adds the form that takes a token, and returns to a view.
pub fn add_token(html: &mut Html, view: &PageView) {
    html.raw(r#"<form class="form" method="post" action="/session" id="sign-in"><label>Token "#);
    html.raw(r#"<input type="password" name="token" id="token" required "#);
    html.raw(r#"autocomplete="current-password"></label>"#);
    html.fill(r#"<input type="hidden" name="to" value="{}">"#, &[&view.url()]);
    html.raw(r#" <button>Sign in</button></form><p class="note">"#);
    html.raw("The token is the one that programs send. The page can read with it, and change ");
    html.raw("nothing.</p>");
}

/// Adds the form that ends a session.
pub fn add_end(html: &mut Html) {
    html.raw(r#"<form method="post" action="/session/end" id="sign-out">"#);
    html.raw("<button>Sign out</button></form>");
}

/// Adds the form that selects a namespace which the caller may read.
pub fn add_namespace(html: &mut Html, view: &PageView) {
    html.raw(
        r#"<form class="form" action="/" id="filter"><label>Namespace <input name="ns" id="ns" "#,
    );
    html.fill(r#"value="{}"></label> <button>Show</button></form>"#, &[&view.namespace]);
}
