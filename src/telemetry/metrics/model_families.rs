//! The metrics of language models and of money. docs/metrics.md is made from this file, too.

use super::families::families;
use super::family::Family;

families! {
    TOKENS = Family::counter(
        "tollgate_tokens_total", &["policy", "model", "kind"], "tokens",
        "Tokens that answers of language models have stated. model: the entry of the prices, or \
         `_other`. kind: input (that is in no cache), cache_read, cache_write, output.",
    ).on_event().chosen(&["model"]);
    SPENT_UNITS = Family::counter(
        "tollgate_spent_units_total", &["policy", "model"], "units",
        "Units that were settled by tokens. Those of a limit in money are its smallest units. model: \
         as in tollgate_tokens_total.",
    ).on_event().chosen(&["model"]);
    OVER_LIMIT_UNITS = Family::counter(
        "tollgate_over_limit_units_total", &["policy"], "units",
        "Units that settlements have counted beyond the limit, because responses have cost more than \
         was reserved. Only those of store_mode exact, and of the memory.",
    ).on_event();
    PRICE_FILE_LAST_LOAD = Family::gauge(
        "tollgate_price_file_last_load_successful", &["file"], "",
        "1 if the file of the prices was read at the last reload, 0 if it has mistakes and the prices \
         that were read before stay in force. file: as the configuration names it.",
    ).on_event();
}
