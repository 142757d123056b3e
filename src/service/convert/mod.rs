//! The only conversion between wire and domain. Requests are checked; every domain value has a form
//! on the wire.

pub mod age;
mod configure;
mod copied;
mod damping;
mod error;
mod event;
mod fields;
mod filter;
mod identity;
mod leader;
mod mark;
mod namespace;
mod need;
mod one_pass;
mod operation;
mod output;
mod page;
mod past;
mod quorum;
mod report;
pub mod rules;
mod session;
pub mod severity;
pub mod start;
mod uptime;
mod value;

pub use crate::service::protobuf::timestamp;
pub use configure::{configure_application, remove_unit};
pub use copied::{copied, copied_time, image, shown};
pub use error::{
    class, fault, finding_verdict, hold, report_error, resolve_error, resolve_hold, verdict,
};
pub use event::event;
pub use fields::Fields;
pub use filter::{bookmark_interval, filter};
pub use identity::{
    OnOperation, Scoped, app, faults_of_many, list_applications, list_blockers, open, read,
    request_id, statuses_of_many, unit_order,
};
pub use leader::{
    app_data, candidates, claim_leadership, clear_application_status, lease, release_leadership,
    renew_leadership, replace_application_statuses, set_application_status, transfer_leadership,
    update_app_data,
};
pub use mark::{MarksOf, list_marks, mark, remove_mark, set_mark};
pub use namespace::namespace;
pub use need::{blocker, cause};
#[cfg(any(test, feature = "testing"))]
pub use one_pass::probe;
pub use one_pass::{OnePassCodec, PlainReport, Received};
pub use operation::{
    acquire, begin, complete, fail, heartbeat, operation, operation_line, pending, release, states,
    verify,
};
pub use output::{
    application, config, contribution, leader_record, override_contribution, record, status_report,
    unit,
};
pub use page::{PAGE_BYTES_MAX, Page, fill, first_of, framed, page_size};
pub use past::{PastOf, list_past, past};
pub use report::{clear, replace, report};
pub use session::{announce_stop, hello, inbound, outbound, register_unit, request_callback};
pub use uptime::{uptime, uptime_range};
pub use value::{count, duration, from_level, level_word};
