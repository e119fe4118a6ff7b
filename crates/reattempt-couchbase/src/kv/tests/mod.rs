mod error_map_strategy;
mod verdicts;
