//! The metrics in the format OpenMetrics 1.0, which has exemplars.

use std::fmt::Write;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use super::exemplar::{Exemplar, Exemplars, Series};
use super::rpc::CALLS_FAMILY;

/// The media type of `encode`.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes families as text, with the exemplars of the calls.
pub(super) fn encode(families: &[MetricFamily], exemplars: &Exemplars) -> String {
    let mut text = String::new();
    for family in families {
        write_family(&mut text, family, exemplars);
    }
    text.push_str("# EOF\n");
    text
}

fn write_family(text: &mut String, family: &MetricFamily, exemplars: &Exemplars) {
    let kind = family.get_field_type();
    let name = family.name();
    let (name, word) = match kind {
        // The name of a counter is that of its samples without `_total`.
        MetricType::COUNTER => (name.trim_end_matches("_total"), "counter"),
        MetricType::GAUGE => (name, "gauge"),
        MetricType::HISTOGRAM => (name, "histogram"),
        MetricType::SUMMARY => (name, "summary"),
        MetricType::UNTYPED => (name, "unknown"),
    };
    writeln!(text, "# TYPE {name} {word}").ok();
    writeln!(text, "# HELP {name} {}", escaped(family.help())).ok();
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match kind {
            MetricType::COUNTER => {
                sample(text, name, "_total", labels, metric.get_counter().get_value());
            }
            MetricType::GAUGE => sample(text, name, "", labels, metric.get_gauge().get_value()),
            MetricType::HISTOGRAM => histogram(text, name, metric, exemplars),
            // The server has none of them.
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
    }
}

fn histogram(text: &mut String, name: &str, metric: &Metric, exemplars: &Exemplars) {
    let labels = metric.get_label();
    let histogram = metric.get_histogram();
    let found = if name == CALLS_FAMILY { exemplars.of(&series(labels)) } else { Vec::new() };
    let buckets = histogram.get_bucket().iter();
    let mut bounds: Vec<_> = buckets.map(|b| (b.upper_bound(), b.cumulative_count())).collect();
    if bounds.last().is_none_or(|(bound, _)| bound.is_finite()) {
        bounds.push((f64::INFINITY, histogram.get_sample_count()));
    }
    for (i, (bound, count)) in bounds.into_iter().enumerate() {
        let set = labelled(labels, Some(bound));
        let exemplar = found.get(i).and_then(Option::as_ref).map(suffix).unwrap_or_default();
        writeln!(text, "{name}_bucket{set} {count}{exemplar}").ok();
    }
    sample(text, name, "_sum", labels, histogram.get_sample_sum());
    sample(text, name, "_count", labels, histogram.get_sample_count() as f64);
}

fn series(labels: &[LabelPair]) -> Series {
    let value = |name: &str| {
        let found = labels.iter().find(|label| label.name() == name);
        found.map(|label| Arc::from(label.value()))
    };
    Series {
        method: value("rpc_method").unwrap_or_default(),
        code: value("rpc_response_status_code").unwrap_or_default(),
        is_server_error: value("error_type").is_some(),
    }
}

fn suffix(exemplar: &Exemplar) -> String {
    let Exemplar { trace_id, span_id, seconds, time } = exemplar;
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let (whole, millis) = (time / 1000, time % 1000);
    format!(
        " # {{trace_id=\"{trace_id}\",span_id=\"{span_id}\"}} {} {whole}.{millis:03}",
        number(*seconds)
    )
}

fn sample(text: &mut String, name: &str, end: &str, labels: &[LabelPair], value: f64) {
    writeln!(text, "{name}{end}{} {}", labelled(labels, None), number(value)).ok();
}

/// Returns the labels in braces; nothing without labels.
fn labelled(labels: &[LabelPair], bound: Option<f64>) -> String {
    let labels = labels.iter();
    let mut all: Vec<String> =
        labels.map(|one| format!("{}=\"{}\"", one.name(), escaped(one.value()))).collect();
    // The bound is written as a float: `1.0`.
    all.extend(bound.map(|bound| match bound.is_finite() {
        true => format!("le=\"{bound:?}\""),
        false => "le=\"+Inf\"".to_string(),
    }));
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn number(value: f64) -> String {
    match value {
        value if value == f64::INFINITY => "+Inf".to_string(),
        value if value == f64::NEG_INFINITY => "-Inf".to_string(),
        value => value.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// Returns whether a scraper prefers OpenMetrics, by the weights of its `Accept` header.
pub fn prefers_open_metrics(accept: &str) -> bool {
    let mut weights = [0.0_f64; 2];
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<&str> = parts.collect();
        let value = |name: &str| parameters.iter().find_map(|one| one.strip_prefix(name));
        let weight = value("q=").map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        let is_known = value("version=").is_none_or(|version| version == "1.0.0");
        match kind.as_str() {
            "application/openmetrics-text" if is_known => weights[0] = weights[0].max(weight),
            "text/plain" | "text/*" | "*/*" => weights[1] = weights[1].max(weight),
            _ => {}
        }
    }
    0.0 < weights[0] && weights[1] <= weights[0]
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

    use super::*;
    use crate::telemetry::Telemetry;

    #[test]
    fn the_scraper_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.2,\
            */*;q=0.1";
        for (accept, expected) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text; version=1.0.0; q=0.1, text/plain; q=0.9", false),
            ("application/openmetrics-text; version=2.0.0", false),
            ("application/openmetrics-text; q=0", false),
            ("application/openmetrics-text; q=many", false),
            ("text/plain", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(prefers_open_metrics(accept), expected, "{accept}");
        }
    }

    #[test]
    fn a_traced_call_is_the_exemplar_of_its_bucket() {
        let telemetry = Telemetry::local("0.1.0").unwrap();
        let method = telemetry.metrics().rpc_method("a.B/C");
        let span = |flags| {
            let (trace, span) = (TraceId::from(7_u128), SpanId::from(9_u64));
            SpanContext::new(trace, span, flags, false, TraceState::default())
        };
        let finish = |millis, span: Option<&SpanContext>| {
            let elapsed = std::time::Duration::from_millis(millis);
            method.call_finished(tonic::Code::Ok, false, elapsed, span);
        };
        finish(3, None);
        finish(20, Some(&span(TraceFlags::SAMPLED)));
        finish(2000, Some(&span(TraceFlags::default())));
        let text = telemetry.prometheus().open_metrics();
        let bucket = |bound: &str| {
            let line = text.lines().find(|line| {
                line.starts_with("rpc_server_call_duration_seconds_bucket{")
                    && line.contains(&format!("le=\"{bound}\""))
            });
            line.unwrap_or_else(|| panic!("{bound}: {text}")).to_string()
        };
        let (_, exemplar) = bucket("0.05").split_once("} 2 # ").map(own).unwrap();
        let ids = "{trace_id=\"00000000000000000000000000000007\",span_id=\"0000000000000009\"} ";
        assert!(exemplar.starts_with(&format!("{ids}0.02 1")), "{exemplar}");
        assert!(bucket("0.01").ends_with("} 1"));
        assert!(bucket("1.0").ends_with("} 2"));
        assert!(bucket("+Inf").ends_with("} 3"));
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# TYPE rpc_server_call_duration_seconds histogram\n"), "{text}");
        assert!(!telemetry.prometheus().text().contains("trace_id"));
    }

    fn own((a, b): (&str, &str)) -> (String, String) {
        (a.to_string(), b.to_string())
    }

    #[test]
    fn a_counter_is_named_without_its_end() {
        let telemetry = Telemetry::local("0.1.0").unwrap();
        telemetry.metrics().report(crate::telemetry::ReportResult::Changed);
        let text = telemetry.prometheus().open_metrics();
        assert!(text.contains("# TYPE bellwether_reports counter\n"), "{text}");
        assert!(text.contains("bellwether_reports_total{result=\"changed\"} 1\n"), "{text}");
    }
}
