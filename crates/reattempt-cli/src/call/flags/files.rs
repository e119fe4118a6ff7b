//! The files that flags name, as parts of the document.

use super::Arguments;
use crate::call::document::{Fault, Faults};

/// The files of `--config` and `--ca`, for the faults of their content.
#[derive(Debug)]
pub(crate) struct Files {
    config: Option<String>,
    ca: Option<String>,
}

impl Arguments {
    pub(crate) fn files(&self) -> Files {
        let [config, ca] = [&self.config, &self.ca]
            .map(|file| file.as_ref().map(|file| file.display().to_string()));
        Files { config, ca }
    }
}

impl Files {
    /// The same faults; one of a file's content has the name of the file before its path.
    pub(crate) fn name_in(&self, faults: &Faults) -> Faults {
        let named = |fault: &Fault| match self.of(fault) {
            Some(file) => Fault::new(format!("{file}: {}", fault.path), &fault.what),
            None => fault.clone(),
        };
        let faults = faults.faults().iter().map(named).collect();
        Faults::new("the document", faults)
    }

    /// The file whose content has this fault.
    fn of(&self, fault: &Fault) -> Option<&String> {
        let is_in = |member: &str| {
            let below = fault.path.strip_prefix(member);
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        };
        if is_in("$.service_config") || is_in("$.policy") {
            return self.config.as_ref();
        }
        // The certificates are read with the other members of `tls`.
        let is_of_ca = is_in("$.tls") && fault.what.starts_with("`ca`");
        self.ca.as_ref().filter(|_| is_of_ca)
    }
}
