//! `prices`: what tokens of language models cost.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::Written;
use tollgate_core::price::{Denomination, MAX_DIGITS, Price, PriceTable, Prices};

use super::client::keys::tell;
use crate::config::api_keys::Unusable;
use crate::config::field::{Either, Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::prices::PriceFile;
use crate::config::prices::entries::{self, RawPrice};
use crate::config::scalar::CurrencyText;
use crate::config::sections::context::Context;

/// The digits that most currencies of prices for tokens need.
const USUAL_DIGITS: u8 = 6;

/// What the tokens of language models cost. Limits in money need it: `limit: 500 usd/day`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "prices", default)]
#[schemars(deny_unknown_fields, extend("required" = ["currency"]))]
pub struct RawPrices {
    /// The currency of all prices and of limits in money.
    #[schemars(example = &"usd")]
    currency: Field<CurrencyText>,
    /// How many decimals are counted. With 6, a unit is a millionth of the currency, and the largest
    /// limit is 549,755. With fewer digits it is larger. Another number is another counter.
    #[schemars(extend("default" = USUAL_DIGITS))]
    #[schemars(example = 4)]
    #[schemars(range(min = 0, max = MAX_DIGITS))]
    digits: Field<u64>,
    /// The file with the prices by model, like `models`. The gateway reads it again when it changes.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"prices.yaml")]
    file: Field<String>,
    /// The prices by model: its name, or the beginning of names and `*`. The exact name wins, then the
    /// longest pattern. Case makes no difference. At most 10,000.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "gpt-5*": { "input": 1.25, "output": 10 } }))]
    models: Field<Entries<RawPrice>>,
    /// What happens to requests for other models: `deny`, or their price.
    #[schemars(extend("default" = "deny"))]
    #[schemars(example = serde_json::json!({ "input": 10, "output": 50 }))]
    unknown: Field<Either<RawDeny, RawPrice>>,
}

/// The word for models that may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "unknown", rename_all = "snake_case")]
#[schemars(rename = "denial of models")]
pub enum RawDeny {
    /// They are refused with 403.
    Deny,
}

/// The section, compiled.
#[derive(Default)]
pub struct CompiledPrices {
    /// The prices.
    pub prices: Written<Arc<Prices>>,
    /// The file with them, if they are in a file.
    pub file: Option<PriceFile>,
}

/// The section, with errors for what is wrong.
pub fn compile(raw: &Field<RawPrices>, cx: &Context<'_>) -> CompiledPrices {
    match raw {
        Field::Absent => CompiledPrices::default(),
        Field::Broken => CompiledPrices { prices: Written::Unreadable, file: None },
        Field::Given(given) => given.value.compile(given.span, cx),
    }
}

impl RawPrices {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> CompiledPrices {
        let message = "the prices have no \"currency\"";
        let currency = cx.required(&self.currency, span, message, "like currency: usd").copied();
        let range = 0..=u64::from(MAX_DIGITS);
        let digits = match self.digits.is_absent() {
            true => Some(USUAL_DIGITS),
            false => cx.number(&self.digits, "digits", range),
        };
        let unknown = self.unknown(cx);
        let (table, file) = self.table(span, cx);
        let made = || {
            let CurrencyText(currency) = currency?;
            let denomination = Denomination { currency, digits: digits? };
            let prices = Prices { denomination, table: table?, unknown: unknown? };
            Some(Arc::new(prices))
        };
        CompiledPrices { prices: made().map_or(Written::Unreadable, Written::Given), file }
    }

    /// The price of models without an entry, or none. None if it has a mistake.
    fn unknown(&self, cx: &Context<'_>) -> Option<Option<Price>> {
        match &self.unknown {
            Field::Absent => Some(None),
            Field::Broken => None,
            Field::Given(given) => match &given.value {
                Either::Short(RawDeny::Deny) => Some(None),
                Either::Long(price) => price.compile(given.span, cx.problems).map(Some),
            },
        }
    }

    fn table(
        &self,
        span: TextSpan,
        cx: &Context<'_>,
    ) -> (Option<Arc<PriceTable>>, Option<PriceFile>) {
        match (self.file.is_absent(), self.models.is_absent()) {
            (true, false) => {
                let table = entries::compile(&self.models, cx.problems);
                (Some(Arc::new(table)), None)
            }
            (false, true) => {
                let file = self.file.given().and_then(|path| read(path, cx));
                (file.as_ref().map(|file| Arc::clone(&file.table)), file)
            }
            _ => {
                // Their mistakes are told, too.
                entries::compile(&self.models, cx.problems);
                let message = "the prices are either in \"models\" or in a \"file\"";
                cx.error(span, message, "write exactly one of them");
                (None, None)
            }
        }
    }
}

/// The prices in the file at `path`. If it cannot be used at a reload, the prices that were read from
/// this path before stay in use.
fn read(path: &Spanned<String>, cx: &Context<'_>) -> Option<PriceFile> {
    let unusable = match cx.around.prices(&path.value, path.shown()) {
        Ok(file) => return Some(file),
        Err(unusable) => unusable,
    };
    let before = cx.around.prices_before(&path.value);
    let stays = before.is_some();
    match unusable {
        Unusable::Unreadable(why) => {
            let message = format!("the file {:?} gives no prices: {why}", path.shown());
            if stays {
                cx.warning(path.span, &message, "");
            } else {
                cx.error(path.span, &message, "write the prices of models: docs/ai.md");
            }
        }
        Unusable::Mistakes(report) => tell(path, &report, stays, cx),
    }
    if stays {
        let message = format!(
            "the prices that were read from {:?} before stay in force, because the file has mistakes",
            path.shown()
        );
        cx.warning(path.span, &message, "");
    }
    before.map(PriceFile::outdated)
}
