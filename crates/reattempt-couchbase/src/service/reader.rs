//! Reads the part of a body that the verdict needs.

use http::StatusCode;

use super::answer::BodyEnd;
use super::error_list::ErrorListScan;
use super::phrase::{Wording, WordingScan};
use super::{HttpService, Kind, ServiceAnswer};
use crate::{search, views};

/// What to look for in a body, by service and status, and what was found.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    good: bool,
    scan: Scan,
}

#[derive(Clone, Debug)]
enum Scan {
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
        Self {
            good: status.is_success(),
            scan,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.scan {
            Scan::Errors(scan) => scan.push(bytes),
            Scan::Wording(scan) => scan.push(bytes),
            Scan::Nothing => {}
        }
    }

    /// True if the status is successful.
    pub(super) const fn is_good(&self) -> bool {
        self.good
    }

    /// True if no further byte changes the verdict. A successful response stays undecided until its
    /// end.
    pub(super) fn is_decided(&self) -> bool {
        match &self.scan {
            Scan::Errors(scan) => scan.is_over() && (scan.has_error() || !self.good),
            Scan::Wording(scan) => scan.found(),
            Scan::Nothing => !self.good,
        }
    }

    /// True if a successful response has started to deliver data for its caller.
    pub(super) const fn has_begun(&self) -> bool {
        match &self.scan {
            Scan::Errors(scan) => scan.has_rows(),
            Scan::Wording(_) | Scan::Nothing => true,
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
