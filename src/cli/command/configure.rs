//! `bellwether configure APP`: changes the configuration of an application, or shows it.

use std::time::Duration;

use bellwether_client::proto::OfApplication;

use crate::cli::command::configure_damping;
use crate::cli::command::configure_damping::DampingArgs;
use crate::cli::context::{Context, print_plain, say};
use crate::cli::level::LevelWord;
use crate::cli::target::Target;
use crate::cli::{level, span};
use crate::proto::v1::quorum::Enough;
use crate::proto::v1::{
    ApplicationConfig, ConfigureApplicationRequest, ExternalLeader, HandOver, Level, LostUnits,
    Policy, Quorum, Ttls,
};

/// Units that a quorum may need.
const QUORUM_UNITS_MAX: i32 = 1_000_000;

/// The word for no unit as the external leader.
const NOBODY: &str = "nobody";

/// The word for a hand-over to any unit.
const ANY: &str = "any";

/// The contribution of a lost unit, as typed; the number is that of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LostUnitsWord {
    /// Nothing; it is only counted
    Ignore = LostUnits::Ignore as isize,
    /// One contribution of level waiting
    Waiting = LostUnits::Waiting as isize,
    /// One contribution of level blocked
    Blocked = LostUnits::Blocked as isize,
}

/// A span of time; nothing for the default again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting(Option<Duration>);

/// A quorum; nothing for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuorumSetting(Option<Quorum>);

/// Configure an application, creating it if need be; without options, show its configuration
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// juju, openstack, strict, or all seven levels, worst first: error,blocked,...
    #[arg(long, value_parser = policy)]
    policy: Option<Policy>,
    /// The contribution of a lost unit
    #[arg(long, value_enum)]
    lost_units: Option<LostUnitsWord>,
    /// The ttl of statuses reported without one: 90s, 5m, or none
    #[arg(long, value_name = "SPAN|none", value_parser = setting)]
    default_ttl: Option<Setting>,
    /// How long a unit may be silent after its last ttl: 2m, or default
    #[arg(long, value_name = "SPAN|default", value_parser = setting)]
    lost_after: Option<Setting>,
    /// How long a stateless unit stays lost before it is removed, once as many successors are
    /// fresh: 10m, default, or 0 for never
    #[arg(long, value_name = "SPAN|default", value_parser = setting)]
    replaced_after: Option<Setting>,
    /// Levels at which the health service answers SERVING
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    serving_levels: Vec<LevelWord>,
    /// How often to collect the statuses of connected units: 1m, or default
    #[arg(long, value_name = "SPAN|default", value_parser = setting)]
    collect_interval: Option<Setting>,
    /// Pass what a replaced stateless unit pushed to the next unit with the same value of this
    /// label; `any` passes it to the next unit, `none` to no unit
    #[arg(long, value_name = "LABEL|any|none")]
    hand_over: Option<String>,
    /// The unit that leads by a decision outside, for example by Juju; `nobody` while no unit does,
    /// `none` to elect a leader here again
    #[arg(long, value_name = "UNIT|nobody|none")]
    external_leader: Option<String>,
    /// How long a lease lasts without a renewal: 2s to 5m, or default
    #[arg(long, value_name = "SPAN|default", value_parser = setting)]
    lease_duration: Option<Setting>,
    /// Whether the application status that a leader set ends with its lease
    #[arg(long, value_name = "true|false")]
    drop_leader_status: Option<bool>,
    /// How many active units are enough, so that the others do not decide the status: 5, 60% of the
    /// known units, or none
    #[arg(long, value_name = "UNITS|PERCENT%|none", value_parser = quorum)]
    quorum: Option<QuorumSetting>,
    #[command(flatten)]
    damping: DampingArgs,
}

fn policy(text: &str) -> Result<Policy, String> {
    if !text.contains(',') {
        return Ok(Policy { name: text.to_string(), order: Vec::new() });
    }
    let level = |word: &str| {
        let level = level::parse(word).ok_or_else(|| format!("`{word}` is no level"))?;
        Ok(i32::from(level))
    };
    Ok(Policy {
        name: "custom".to_string(),
        order: text.split(',').map(level).collect::<Result<_, String>>()?,
    })
}

fn quorum(text: &str) -> Result<QuorumSetting, String> {
    if text == "none" {
        return Ok(QuorumSetting(None));
    }
    let (number, max, enough): (_, _, fn(i32) -> Enough) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100, Enough::MinPercent),
        None => (text, QUORUM_UNITS_MAX, Enough::MinUnits),
    };
    let number = number.parse::<i32>().ok().filter(|n| (1..=max).contains(n));
    let number = number.ok_or("give a number of units, a share such as 60%, or none")?;
    Ok(QuorumSetting(Some(Quorum { enough: Some(enough(number)) })))
}

/// Returns a quorum as it is typed.
fn quorum_as_typed(quorum: Option<&Quorum>) -> String {
    match quorum.and_then(|quorum| quorum.enough) {
        Some(Enough::MinUnits(units)) => units.to_string(),
        Some(Enough::MinPercent(percent)) => format!("{percent}%"),
        None => "none".to_string(),
    }
}

fn setting(text: &str) -> Result<Setting, String> {
    match text {
        "none" | "default" => Ok(Setting(None)),
        text => span::parse(text).map(|span| Setting(Some(span))),
    }
}

/// Changes the configuration, or shows it.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let name = Target::application_only(&args.application)?;
    let request = request(args, &context.namespace());
    let changes = request.update_mask.as_ref().is_some_and(|mask| !mask.paths.is_empty());
    let config = if changes {
        let answer = context.call(request).await?;
        say(&format!("configured {name} (revision {})", answer.revision));
        answer.config
    } else {
        context.application(&name).await?.config
    };
    let config = config.unwrap_or_default();
    context.print_message(&config, "ApplicationConfig", || print_plain(&render(&config)))
}

/// Names exactly the given fields in the mask, so that no other field changes.
fn request(args: Args, namespace: &str) -> ConfigureApplicationRequest {
    let fields = [
        (args.policy.is_some(), "policy"),
        (args.lost_units.is_some(), "lost_units"),
        (args.default_ttl.is_some(), "ttls.default_ttl"),
        (args.lost_after.is_some(), "ttls.lost_after"),
        (args.replaced_after.is_some(), "ttls.replaced_after"),
        (!args.serving_levels.is_empty(), "serving_levels"),
        (args.collect_interval.is_some(), "collect_interval"),
        (args.hand_over.is_some(), "hand_over"),
        (args.external_leader.is_some(), "external_leader"),
        (args.lease_duration.is_some(), "lease_duration"),
        (args.drop_leader_status.is_some(), "drop_leader_status"),
        (args.quorum.is_some(), "quorum"),
        (!args.damping.latch.is_empty(), "latches"),
        (!args.damping.damp.is_empty(), "damping"),
    ];
    let given = fields.into_iter().filter(|(is_given, _)| *is_given);
    let paths = given.map(|(_, path)| path.to_string()).collect();
    let unit = args.external_leader.and_then(|word| named(word, NOBODY));
    let label = args.hand_over.and_then(|word| named(word, ANY));
    let config = ApplicationConfig {
        policy: args.policy,
        lost_units: args.lost_units.map_or(0, |word| word as i32),
        ttls: Some(Ttls {
            default_ttl: duration(args.default_ttl),
            lost_after: duration(args.lost_after),
            replaced_after: duration(args.replaced_after),
        }),
        serving_levels: args.serving_levels.iter().map(|l| Level::from(*l).into()).collect(),
        external_leader: unit.map(|unit| ExternalLeader { unit }),
        collect_interval: duration(args.collect_interval),
        hand_over: label.map(|label| HandOver { label }),
        latches: args.damping.latch.iter().flatten().cloned().collect(),
        damping: args.damping.damping(),
        lease_duration: duration(args.lease_duration),
        drop_leader_status: args.drop_leader_status,
        quorum: args.quorum.and_then(|QuorumSetting(quorum)| quorum),
    };
    ConfigureApplicationRequest {
        config: Some(config),
        update_mask: Some(prost_types::FieldMask { paths }),
        ..OfApplication::of_application(namespace, &args.application)
    }
}

/// Returns the name that a word stands for: nothing for `none`, and an empty one for `empty`.
fn named(word: String, empty: &str) -> Option<String> {
    match word.as_str() {
        "none" => None,
        word if word == empty => Some(String::new()),
        _ => Some(word),
    }
}

/// Returns the word for a name, as [`named`] reads it.
fn word_for<'a>(name: Option<&'a str>, empty: &'a str) -> &'a str {
    match name {
        None => "none",
        Some("") => empty,
        Some(name) => name,
    }
}

fn duration(setting: Option<Setting>) -> Option<prost_types::Duration> {
    setting.and_then(|Setting(span)| span).map(span::on_wire)
}

/// Formats one setting a line, in the words that `configure` takes.
fn render(config: &ApplicationConfig) -> String {
    let policy = config.policy.clone().unwrap_or_default();
    let words = |levels: &[i32]| {
        let words: Vec<&str> = levels.iter().map(|level| level::word(*level)).collect();
        words.join(",")
    };
    let lost_units = config.lost_units().as_str_name().trim_start_matches("LOST_UNITS_");
    let ttls = config.ttls.unwrap_or_default();
    let span = |duration: Option<prost_types::Duration>, absent: &str| {
        span::from_wire(duration).map_or(absent.to_string(), span::exact)
    };
    let leader = word_for(config.external_leader.as_ref().map(|l| l.unit.as_str()), NOBODY);
    let hand_over = word_for(config.hand_over.as_ref().map(|line| line.label.as_str()), ANY);
    [
        ("policy", format!("{} ({})", policy.name, words(&policy.order))),
        ("lost-units", lost_units.to_lowercase()),
        ("default-ttl", span(ttls.default_ttl, "none")),
        ("lost-after", span(ttls.lost_after, "default")),
        ("replaced-after", span(ttls.replaced_after, "default")),
        ("serving-levels", words(&config.serving_levels)),
        ("collect-interval", span(config.collect_interval, "default")),
        ("hand-over", hand_over.to_string()),
        ("external-leader", leader.to_string()),
        ("lease-duration", span(config.lease_duration, "default")),
        ("drop-leader-status", config.drop_leader_status().to_string()),
        ("quorum", quorum_as_typed(config.quorum.as_ref())),
        ("latch", configure_damping::latches_as_typed(config)),
        ("damp", configure_damping::damping_as_typed(config)),
    ]
    .map(|(name, value)| format!("{name:<18}  {value}\n"))
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Damping, Latch};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn mk_request(line: &str) -> ConfigureApplicationRequest {
        let words = ["configure"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).expect("parses");
        request(line.args, "prod")
    }

    #[test]
    fn the_mask_names_what_was_given() {
        let request = mk_request("web --default-ttl 90s --lost-after default");
        let mask = request.update_mask.expect("a mask");
        assert_eq!(mask.paths, ["ttls.default_ttl", "ttls.lost_after"]);
        let ttls = request.config.and_then(|c| c.ttls).expect("ttls");
        assert_eq!(ttls.default_ttl.map(|d| d.seconds), Some(90));
        assert_eq!(ttls.lost_after, None);
        assert!(mk_request("web").update_mask.expect("a mask").paths.is_empty());
    }

    #[test]
    fn the_leader_may_be_decided_outside() {
        let unit = |line: &str| {
            let request = mk_request(line);
            assert_eq!(request.update_mask.expect("a mask").paths, ["external_leader"]);
            request.config.and_then(|c| c.external_leader).map(|leader| leader.unit)
        };
        assert_eq!(unit("web --external-leader web/0").as_deref(), Some("web/0"));
        assert_eq!(unit("web --external-leader nobody").as_deref(), Some(""));
        assert_eq!(unit("web --external-leader none"), None);
    }

    #[test]
    fn latches_and_damping_are_each_set_as_a_whole() {
        let request = mk_request("web --latch db=3,-=2 --damp * --calm-after 1m");
        let config = request.config.expect("a config");
        assert_eq!(request.update_mask.expect("a mask").paths, ["latches", "damping"]);
        let latches: Vec<_> =
            config.latches.iter().map(|l| (&*l.component, l.good_count)).collect();
        assert_eq!(latches, [("db", 3), ("", 2)]);
        let damping = config.damping.expect("damping");
        assert_eq!(damping.components, ["*"]);
        assert_eq!(damping.calm_after.map(|d| d.seconds), Some(60));
        let none = mk_request("web --latch none --damp none");
        let config = none.config.expect("a config");
        assert_eq!(none.update_mask.expect("a mask").paths, ["latches", "damping"]);
        assert!(config.latches.is_empty() && config.damping.is_none());
        for line in ["web --latch db", "web --latch db=1", "web --calm-after 1m"] {
            let words = ["configure"].into_iter().chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn a_quorum_is_a_number_or_a_share() {
        let quorum = |line: &str| {
            let request = mk_request(line);
            assert_eq!(request.update_mask.expect("a mask").paths, ["quorum"]);
            quorum_as_typed(request.config.and_then(|c| c.quorum).as_ref())
        };
        for typed in ["5", "60%", "none", "1000000"] {
            assert_eq!(quorum(&format!("web --quorum {typed}")), typed);
        }
        for typed in ["0", "0%", "101%", "-1", "1000001", "5 units", "%", ""] {
            assert!(super::quorum(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_list_of_levels_is_a_custom_policy() {
        let custom = policy("error,unknown").expect("a policy");
        let order = vec![Level::Error.into(), Level::Unknown.into()];
        assert_eq!((custom.name.as_str(), custom.order), ("custom", order));
        assert_eq!(policy("error,busy"), Err("`busy` is no level".to_string()));
        assert_eq!(policy("strict").expect("a policy").name, "strict");
    }

    #[test]
    fn shows_settings_as_it_takes_them() {
        let config = ApplicationConfig {
            policy: Some(Policy { name: "custom".into(), order: vec![7, 6] }),
            lost_units: LostUnits::Waiting.into(),
            ttls: Some(Ttls {
                default_ttl: None,
                lost_after: Some(prost_types::Duration { seconds: 120, nanos: 0 }),
                replaced_after: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
            }),
            serving_levels: vec![3],
            external_leader: Some(ExternalLeader { unit: "web/0".into() }),
            collect_interval: Some(prost_types::Duration { seconds: 300, nanos: 0 }),
            hand_over: Some(HandOver { label: "slot".into() }),
            latches: vec![
                Latch { component: "db".into(), good_count: 3 },
                Latch { component: String::new(), good_count: 2 },
            ],
            damping: Some(Damping {
                components: vec!["*".into()],
                start_percent: 30,
                stop_percent: 25,
                calm_after: Some(prost_types::Duration { seconds: 300, nanos: 0 }),
            }),
            lease_duration: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            drop_leader_status: Some(true),
            quorum: Some(Quorum { enough: Some(Enough::MinPercent(60)) }),
        };
        let expected = "\
policy              custom (error,blocked)
lost-units          waiting
default-ttl         none
lost-after          2m
replaced-after      10m
serving-levels      active
collect-interval    5m
hand-over           slot
external-leader     web/0
lease-duration      15s
drop-leader-status  true
quorum              60%
latch               db=3,-=2
damp                * (above 30 %, until 25 % or 5m without a swing)
";
        assert_eq!(render(&config), expected);
    }
}
