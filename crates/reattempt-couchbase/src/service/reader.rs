//! Reads the part of a body that the verdict needs.

use http::StatusCode;

use super::error_list::ErrorListScan;
use super::{HttpService, Kind, ServiceAnswer};
use crate::phrase::{Wording, WordingScan};
use crate::service_answer::BodyEnd;
use crate::{search, views};

/// What to look for in a body, by service and status, and what was found.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) scan: Scan,
}

#[derive(Clone, Debug)]
pub(super) enum Scan {
    Errors(ErrorListScan),
    Wording(WordingScan),
    /// Nothing but the complete end of the body.
    Nothing,
}

impl HttpService {
    fn wording(self, status: u16) -> Option<Wording> {
        match self.kind {
            Kind::Search => search::wording(status, self.current_server_codes),
            Kind::Views => views::wording(status),
            Kind::Query | Kind::Analytics | Kind::Management => None,
        }
    }
}

impl Reader {
    pub(super) fn new(service: HttpService, status: StatusCode) -> Self {
        let scan = if matches!(service.kind, Kind::Query | Kind::Analytics) {
            Scan::Errors(ErrorListScan::new())
        } else {
            let wording = service.wording(status.as_u16());
            wording.map_or(Scan::Nothing, |wording| {
                Scan::Wording(WordingScan::new(wording))
            })
        };
        Self { scan }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.scan {
            Scan::Errors(scan) => scan.push(bytes),
            Scan::Wording(scan) => scan.push(bytes),
            Scan::Nothing => {}
        }
    }

    pub(super) fn answer(&self, end: BodyEnd) -> ServiceAnswer {
        let mut answer = ServiceAnswer {
            end,
            ..ServiceAnswer::default()
        };
        match &self.scan {
            Scan::Errors(scan) => {
                answer.error = scan.error();
                answer.rows = scan.has_rows();
            }
            Scan::Wording(scan) => answer.wording = scan.found(),
            Scan::Nothing => {}
        }
        answer
    }
}
