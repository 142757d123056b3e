//! The only translation between the wire and the domain: checked on the way in, total on the way out.

mod input;
mod output;
mod page;

pub use input::{
    Fields, application_status, claim, clear, config_patch, filter, levels, replace, report,
};
pub use output::{
    application, config, contribution, event, override_contribution, record, rule, unit,
};
pub use page::{Page, PageToken};
