//! The members of an entry in LiteLLM's table. One row or rule for each, so that a member of a later
//! version is told and not passed over.

/// What a price in the table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Input,
    CacheRead,
    CacheWrite,
    Output,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The price of a token.
    Token(Kind),
    /// The price of a token if the input has more tokens than this.
    Long(Kind, u64),
    /// The price of a token of thoughts, which are a part of the output.
    Thought,
    /// The price of a request.
    Request,
    /// A price that is not taken, because nothing in a request or its answer tells when it holds.
    Left(Left),
    /// It says something else of the model.
    About,
    /// This version does not know it.
    Unknown,
}

/// Why a price is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    Tier,
    LongCache,
    Media,
    Tool,
    Region,
    Time,
}

/// The causes, in the order of the report.
pub const ALL_LEFT: [Left; 6] =
    [Left::Tier, Left::LongCache, Left::Media, Left::Tool, Left::Region, Left::Time];

impl Left {
    /// What the requests have in common for which it holds.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Tier => "of another service tier, or in a batch",
            Self::LongCache => "that write to a cache for an hour or longer",
            Self::Media => "with tokens of images, audio or video, or counted by other units",
            Self::Tool => "that search or use tools of the provider",
            Self::Region => "in some regions or modes",
            Self::Time => "at other times of the day, or with several ranges of input",
        }
    }
}

/// Members with the price of a token, and the beginnings of those for long inputs.
static TOKENS: [(&str, Kind); 4] = [
    ("input_cost_per_token", Kind::Input),
    ("cache_read_input_token_cost", Kind::CacheRead),
    ("cache_creation_input_token_cost", Kind::CacheWrite),
    ("output_cost_per_token", Kind::Output),
];

/// The ends of members with prices of another tier.
static TIERS: [&str; 6] =
    ["_priority", "_flex", "_batches", "_balanced", "_ultrafast", "_decisions"];

/// Parts of the names of members with prices, and why those are not taken.
static PARTS: [(&str, Left); 26] = [
    ("_above_1hr", Left::LongCache),
    ("_above_12hr", Left::LongCache),
    ("audio", Left::Media),
    ("image", Left::Media),
    ("video", Left::Media),
    ("character", Left::Media),
    ("pixel", Left::Media),
    ("per_second", Left::Media),
    ("per_page", Left::Media),
    ("per_credit", Left::Media),
    ("dbu_cost", Left::Media),
    ("text_message", Left::Media),
    ("per_query", Left::Tool),
    ("per_session", Left::Tool),
    ("per_1k_calls", Left::Tool),
    ("per_1k_tokens", Left::Tool),
    ("per_gb_per_day", Left::Tool),
    ("guardrail", Left::Tool),
    ("citation", Left::Tool),
    ("uplift_multiplier", Left::Region),
    ("provider_specific_entry", Left::Region),
    ("off_peak_pricing", Left::Time),
    ("tiered_pricing", Left::Time),
    ("explicit_cache_read", Left::LongCache),
    ("web_search_billing_unit", Left::Tool),
    ("search_free_requests", Left::Tool),
];

/// Members without a price, and the beginnings of such members.
static ABOUT: [&str; 34] = [
    "alias_of",
    "audio_transcription_config",
    "bedrock_converse_",
    "bedrock_output_",
    "comment",
    "default_reasoning_effort",
    "deprecation_",
    "gemini_",
    "litellm_provider",
    "max_",
    "metadata",
    "mode",
    "output_vector_size",
    "prompt_cache_min_tokens",
    "reasoning_contexts",
    "reasoning_effort_levels",
    "reasoning_modes",
    "rpm",
    "rules",
    "source",
    "successor_model",
    "supported_",
    "supports_",
    "thinking_",
    "token_count_",
    "tool_use_system_prompt_tokens",
    "tpm",
    "use_openai_responses_path",
    "uses_embed_content",
    "vertex_ai_audio_api",
    "output_dimension",
    "display_name",
    "description",
    "notes",
];

/// The same price for input that was read from a cache, under a name of one provider.
const CACHE_HIT: &str = "input_cost_per_token_cache_hit";

/// What the member of this name is.
pub fn member(name: &str) -> Member {
    if let Some((_, kind)) = TOKENS.iter().find(|(it, _)| *it == name) {
        return Member::Token(*kind);
    }
    match name {
        CACHE_HIT => return Member::Token(Kind::CacheRead),
        "output_cost_per_reasoning_token" => return Member::Thought,
        "input_cost_per_request" => return Member::Request,
        _ => {}
    }
    if let Some(long) = TOKENS.iter().find_map(|(it, kind)| {
        let thousands = name.strip_prefix(it)?.strip_prefix("_above_")?.strip_suffix("k_tokens")?;
        Some(Member::Long(*kind, thousands.parse::<u64>().ok()?.checked_mul(1000)?))
    }) {
        return long;
    }
    if TIERS.iter().any(|end| name.ends_with(end)) {
        return Member::Left(Left::Tier);
    }
    if let Some((_, left)) = PARTS.iter().find(|(part, _)| name.contains(part))
        && (is_price(name) || *left != Left::Media)
    {
        return Member::Left(*left);
    }
    match ABOUT.iter().any(|it| is_named(name, it)) && !is_price(name) {
        true => Member::About,
        false => Member::Unknown,
    }
}

fn is_named(name: &str, about: &str) -> bool {
    match about.ends_with('_') {
        true => name.starts_with(about),
        false => name == about,
    }
}

/// Whether a member of this name has a price.
fn is_price(name: &str) -> bool {
    ["cost", "pric", "multiplier"].iter().any(|part| name.contains(part))
}
