//! The properties that must hold for every call, checked by simple counts over the log.

mod deadlines;
mod hedges;
mod outcomes;
mod records;
mod sends;
mod story;
pub(crate) mod tokens;

pub(crate) use story::Story;

/// The violated properties.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<String>);

impl Faults {
    pub(crate) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// More polls than this at one instant indicate a busy loop.
const MOST_POLLS: u32 = 50;

pub(crate) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let polls = story.seen.polls;
    faults.check(polls <= MOST_POLLS, || {
        format!("{polls} polls at one instant")
    });
    sends::judge(story, faults);
    hedges::judge(story, faults);
    deadlines::judge(story, faults);
    outcomes::judge(story, faults);
    records::judge(story, faults);
    tokens::judge(story, faults);
}
