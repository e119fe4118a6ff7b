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
            Some((file, path)) => Fault::new(format!("{file}: {path}"), &fault.what),
            None => fault.clone(),
        };
        let faults = faults.faults().iter().map(named).collect();
        Faults::new("the document", faults)
    }

    /// The file whose content has this fault, and where it is in the file.
    fn of(&self, fault: &Fault) -> Option<(&String, String)> {
        let below = |member: &str| {
            let below = fault.path.strip_prefix(member)?;
            let is_in = below.is_empty() || below.starts_with(['.', '[']);
            is_in.then(|| format!("${below}"))
        };
        if let Some(path) = below("$.service_config").or_else(|| below("$.policy")) {
            return self.config.as_ref().map(|file| (file, path));
        }
        let path = below("$.tls.ca")?;
        self.ca.as_ref().map(|file| (file, path))
    }
}
