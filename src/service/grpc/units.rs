//! `ListUnits`: the units of an application, by name or the worst first.

use tonic::{Request, Status};

use crate::domain::app::AppState;
use crate::domain::level::Level;
use crate::domain::name::UnitName;
use crate::domain::severity::Severity;
use crate::domain::status::Freshness;
use crate::proto::v1;
use crate::service::convert::{self, Page};
use crate::service::grpc::handlers::Handlers;

/// Answers a `ListUnits`.
pub(super) async fn list(
    Handlers { reads, .. }: &Handlers,
    request: Request<v1::ListUnitsRequest>,
) -> Result<v1::ListUnitsResponse, Status> {
    let (app, wire, order) = convert::open(request, convert::unit_order)?;
    let asked = [&*app.to_string(), order.as_str_name()];
    let (size, token) = (wire.page_size, &*wire.page_token);
    let (units, next_page_token) = match order {
        v1::UnitOrder::WorstFirst => {
            let page = Page::open("ListUnits", &asked, size, token)?;
            reads.read(&app, wire.min_revision, |state| worst_first(state, &page)).await?
        }
        v1::UnitOrder::Name | v1::UnitOrder::Unspecified => {
            let page = Page::open("ListUnits", &asked[..1], size, token)?;
            let list = |state: &AppState| {
                let units = state.units_after(page.after.as_ref());
                page.fill(units.map(|(name, unit)| (name, convert::unit(state, name, unit))))
            };
            reads.read(&app, wire.min_revision, list).await?
        }
    };
    Ok(v1::ListUnitsResponse { units, next_page_token })
}

/// The place of a unit: its severity, then its name.
type Place = (u8, UnitName);

fn worst_first(state: &AppState, page: &Page<Place>) -> (Vec<v1::Unit>, String) {
    let placed = state.units_after(None).map(|(name, unit)| {
        let level = state.strongest_of(name).map_or(Level::Unknown, |rank| rank.level);
        let is_silent = unit.freshness() != Freshness::Fresh;
        (Severity::of(level, is_silent, false) as u8, name.clone())
    });
    let is_next = |place: &Place| page.after.as_ref().is_none_or(|last| last < place);
    let mut placed: Vec<Place> = placed.filter(is_next).collect();
    placed.sort_unstable();
    let units = placed.into_iter().filter_map(|place| {
        let unit = convert::unit(state, &place.1, state.unit(&place.1)?);
        Some((place, unit))
    });
    page.fill(units)
}
