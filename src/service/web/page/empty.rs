//! The page of a server that has no application yet: how to begin.

use super::action;
use super::html::Html;

/// The port at which the command line looks for a server on its own machine.
const USUAL_PORT: &str = "50051";

/// Adds the first commands. `authority` is the host and port that the browser asked.
pub fn add(html: &mut Html, is_tls: bool, authority: &str) {
    let scheme = if is_tls { "https" } else { "http" };
    let server = match is_usual(is_tls, authority) {
        true => String::new(),
        false => format!(" --server {scheme}://{authority}"),
    };
    html.raw(r#"<div class="empty" id="empty"><h1 id="headline" aria-live="polite">"#);
    html.raw(
        "Nothing has reported yet</h1><p>Paste these into a terminal. What they report shows ",
    );
    html.raw("here within a second. <a href=\"/concepts\">Concepts</a> explains unit, level and ");
    html.raw("the other words.</p><ol>");
    for (what, command) in [
        ("Report a unit that works", "report web/1 --level active"),
        (
            "Report one that needs a person",
            "report web/0 --level blocked -m \"add a database relation\" \\\n    \
             --action \"juju integrate web postgresql\"",
        ),
        ("Ask why", "why web"),
    ] {
        html.element("<li><p>", what, "</p>");
        action::add_command(html, "", &format!("bellwether{server} {command}"));
        html.raw("</li>");
    }
    html.raw(r#"</ol><details id="by-curl"><summary>Without the program, by curl</summary>"#);
    let curl = format!(
        "curl -sf {scheme}://{authority}/bellwether.v1.ReportService/ReportStatus \
         -H 'content-type: application/json' -d '{{\"application\": \"web\", \"unit\": \"web/0\", \
         \"status\": {{\"level\": \"LEVEL_ACTIVE\"}}}}'"
    );
    action::add_command(html, "", &curl);
    html.raw("</details></div>");
}

/// Returns whether the command line finds the server without its address.
fn is_usual(is_tls: bool, authority: &str) -> bool {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    !is_tls && port == USUAL_PORT && ["localhost", "127.0.0.1"].contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_name_the_server_only_where_they_must() {
        for (is_tls, authority, server) in [
            (false, "127.0.0.1:50051", ""),
            (false, "localhost:50051", ""),
            (true, "localhost:50051", " --server https://localhost:50051"),
            (false, "status.example:50051", " --server http://status.example:50051"),
            (false, "localhost:8080", " --server http://localhost:8080"),
            (true, "status.example", " --server https://status.example"),
        ] {
            let mut html = Html::default();
            add(&mut html, is_tls, authority);
            let expected = format!("<code>bellwether{server} why web</code>");
            assert!(html.as_str().contains(&expected), "{authority}: {}", html.as_str());
        }
    }
}
