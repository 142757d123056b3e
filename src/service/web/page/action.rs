//! Commands for a person: as they are typed, with a button that copies them. The style sheet shows
//! the button only if the script can copy.

use super::html::Html;

/// Adds the action of a status; nothing without one.
pub fn add(html: &mut Html, action: &str) {
    if !action.is_empty() {
        add_command(html, "Action: ", action);
    }
}

/// Adds a command. `label` is for screen readers alone.
pub fn add_command(html: &mut Html, label: &'static str, command: &str) {
    html.raw(r#"<div class="do">"#);
    if !label.is_empty() {
        html.raw(r#"<span class="hidden">"#).raw(label).raw("</span>");
    }
    let button = r#"<button type="button" aria-label="Copy: {}">Copy</button></div>"#;
    html.fill("<code>{}</code>", &[&command]).fill(button, &[&command]);
}
