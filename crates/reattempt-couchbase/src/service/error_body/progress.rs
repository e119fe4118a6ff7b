//! How far a body that is arriving has to be read.

use crate::service::reader::{Reader, Scan};

impl Reader {
    /// Of a body in which there is nothing to look for.
    pub(super) const fn of_status() -> Self {
        Self {
            scan: Scan::Nothing,
        }
    }

    /// True if no further byte changes the verdict. A successful response stays undecided until its
    /// end.
    pub(super) fn is_decided(&self, is_success: bool) -> bool {
        match &self.scan {
            Scan::Errors(scan) => scan.is_over() && (scan.present || !is_success),
            Scan::Wording(scan) => scan.found(),
            Scan::Nothing => !is_success,
        }
    }

    /// True if a successful response has started to deliver data for its caller.
    pub(super) fn has_begun(&self) -> bool {
        match &self.scan {
            // What is over without a row is no response of the service: of a proxy, for example.
            Scan::Errors(scan) => scan.has_rows() || scan.is_over(),
            Scan::Wording(_) | Scan::Nothing => true,
        }
    }
}
