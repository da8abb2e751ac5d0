//! What a lease says, and its bytes. Pure.
//!
//! The bytes are for nodes of one version and the next ones: a new form gets a new version.
//! Decoding any bytes does not panic.

use tollgate_core::decision::{Charged, ChargedLimit, MAX_POLICIES};
use tollgate_core::digest::{Counter, Principal};
use tollgate_core::policy::PlanId;
use tollgate_core::store::Source;
use tollgate_core::time::{Span, Timestamp};

/// The most bytes of the name of a limit that a question states, and of the name of a node.
pub const MAX_NAME: usize = 64;

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseToken {
    /// The number of its mark. It looks random.
    pub id: u128,
    /// When the question was answered, by the wall clock.
    pub issued: Timestamp,
    /// When it ends, by the wall clock.
    pub expires: Timestamp,
    /// When the units were charged, by the clock of the store.
    pub taken: Timestamp,
    /// The process that has answered the question.
    pub node: u64,
    /// Where that process is, for people.
    pub place: String,
    /// The lease of units in flight that this process holds. 0: it holds none.
    pub held: u64,
    /// What was charged.
    pub charges: Vec<LeasedCharge>,
}

/// What one policy has charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCharge {
    pub charged: Charged,
    /// Whether the policy does not enforce its limit. If it is gone, the others are settled.
    pub is_shadow: bool,
    /// The limit, if the question has stated it.
    pub dynamic: Option<Dynamic>,
}

/// A limit that a question states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dynamic {
    pub name: String,
    pub units: u64,
    pub window: Span,
}

impl LeaseToken {
    /// The number of the lease that replaces this one when it is renewed. It is always the same,
    /// so that the same call can be made again.
    pub const fn next_id(&self) -> u128 {
        self.id.wrapping_add(STEP)
    }

    /// Its bytes. Names are cut to [`MAX_NAME`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(self.id.to_le_bytes());
        let times = [self.issued, self.expires, self.taken].map(Timestamp::as_micros);
        for number in times.into_iter().chain([self.node, self.held]) {
            bytes.extend(number.to_le_bytes());
        }
        put_name(&self.place, &mut bytes);
        for charge in self.charges.iter().take(MAX_POLICIES) {
            charge.encode(&mut bytes);
        }
        bytes
    }

    /// The lease with these bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let token = Self {
            id: u128::from_le_bytes(reader.array()?),
            issued: reader.time()?,
            expires: reader.time()?,
            taken: reader.time()?,
            node: reader.number()?,
            held: reader.number()?,
            place: reader.name()?,
            charges: Vec::new(),
        };
        let mut charges = Vec::new();
        while !reader.0.is_empty() && charges.len() < MAX_POLICIES {
            charges.push(LeasedCharge::decode(&mut reader)?);
        }
        reader.0.is_empty().then_some(Self { charges, ..token })
    }
}

/// The difference of the numbers of a lease and of the one that replaces it: an odd number, of
/// which all bits look random (the golden ratio).
const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

// Parts of the first byte of a charge.
const LOCAL: u8 = 1;
const BEYOND: u8 = 2;
const DYNAMIC: u8 = 4;
/// The kind of the limit.
const PLAN: u8 = 8;
const KEY: u8 = 16;
const SHADOW: u8 = 32;
/// The server has counted the units at a time of its own.
const TIME: u8 = 64;

impl LeasedCharge {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let Self { charged, is_shadow, dynamic } = self;
        let (kind, numbers) = match charged.limit {
            ChargedLimit::Own => (0, [0, 0]),
            ChargedLimit::Plan(plan) => (PLAN, [plan.bits(), 0]),
            ChargedLimit::Key(units, window) => (KEY, [units, window.as_micros()]),
        };
        let set = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = kind
            | set(charged.source == Source::Local, LOCAL)
            | set(charged.is_beyond, BEYOND)
            | set(*is_shadow, SHADOW)
            | set(dynamic.is_some(), DYNAMIC)
            | set(charged.at.is_some(), TIME);
        bytes.push(flags);
        bytes.extend(charged.client.bits().to_le_bytes());
        for number in [charged.policy.bits(), charged.cost].into_iter().chain(numbers) {
            bytes.extend(number.to_le_bytes());
        }
        if let Some(at) = charged.at {
            bytes.extend(at.as_micros().to_le_bytes());
        }
        if let Some(Dynamic { name, units, window }) = dynamic {
            bytes.extend(units.to_le_bytes());
            bytes.extend(window.as_micros().to_le_bytes());
            put_name(name, bytes);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let [flags] = reader.array()?;
        let client = Principal::from_bits(u128::from_le_bytes(reader.array()?));
        let policy = Counter::from_bits(reader.number()?);
        let cost = reader.number()?;
        let [first, second] = [reader.number()?, reader.number()?];
        let limit = match flags & (PLAN | KEY) {
            0 => ChargedLimit::Own,
            PLAN => ChargedLimit::Plan(PlanId::from_bits(first)),
            KEY => ChargedLimit::Key(first, Span::from_micros(second)),
            _ => return None,
        };
        let at = match flags & TIME {
            0 => None,
            _ => Some(reader.time()?),
        };
        let source = if flags & LOCAL == 0 { Source::Store } else { Source::Local };
        let is_beyond = flags & BEYOND != 0;
        let dynamic = match flags & DYNAMIC {
            0 => None,
            _ => {
                let units = reader.number()?;
                let window = Span::from_micros(reader.number()?);
                Some(Dynamic { units, window, name: reader.name()? })
            }
        };
        let charged = Charged { policy, client, limit, is_beyond, cost, source, at };
        Some(Self { charged, is_shadow: flags & SHADOW != 0, dynamic })
    }
}

fn put_name(name: &str, bytes: &mut Vec<u8>) {
    let name = &name[..name.floor_char_boundary(MAX_NAME)];
    bytes.push(u8::try_from(name.len()).unwrap_or(0));
    bytes.extend(name.as_bytes());
}

/// The rest of the bytes.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_micros)
    }

    fn name(&mut self) -> Option<String> {
        let [length] = self.array()?;
        let (name, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        String::from_utf8(name.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn charges() -> impl Strategy<Value = LeasedCharge> {
        let limit = prop_oneof![
            Just(ChargedLimit::Own),
            any::<u64>().prop_map(|it| ChargedLimit::Plan(PlanId::from_bits(it))),
            any::<(u64, u64)>().prop_map(|(n, us)| ChargedLimit::Key(n, Span::from_micros(us))),
        ];
        let dynamic =
            prop::option::of(("[a-z]{0,64}", any::<u64>(), any::<u64>()).prop_map(
                |(name, units, us)| Dynamic { name, units, window: Span::from_micros(us) },
            ));
        let source = prop_oneof![Just(Source::Store), Just(Source::Local)];
        (limit, dynamic, source, any::<(u64, u128, [bool; 2], u64, Option<u64>)>()).prop_map(
            |(limit, dynamic, source, (policy, client, [is_beyond, is_shadow], cost, at))| {
                let policy = Counter::from_bits(policy);
                let client = Principal::from_bits(client);
                let at = at.map(Timestamp::from_micros);
                let charged = Charged { policy, client, limit, is_beyond, cost, source, at };
                LeasedCharge { charged, is_shadow, dynamic }
            },
        )
    }

    fn tokens() -> impl Strategy<Value = LeaseToken> {
        let charges = prop::collection::vec(charges(), 0..=MAX_POLICIES);
        (any::<(u128, [u64; 3], u64, u64)>(), "[a-z]{0,64}", charges).prop_map(
            |((id, times, node, held), place, charges)| {
                let [issued, expires, taken] = times.map(Timestamp::from_micros);
                LeaseToken { id, issued, expires, taken, node, place, held, charges }
            },
        )
    }

    proptest! {
        #[test]
        fn a_lease_is_read_as_it_was_written(token in tokens()) {
            let bytes = token.encode();
            prop_assert!(bytes.len() <= 4096, "{}", bytes.len());
            prop_assert_eq!(LeaseToken::decode(&bytes), Some(token));
        }

        #[test]
        fn a_part_of_a_lease_is_none(token in tokens(), cut in 1..200_usize) {
            let bytes = token.encode();
            let cut = &bytes[..bytes.len().saturating_sub(cut)];
            // A lease with fewer charges is one, but a whole charge is longer.
            let is_none = LeaseToken::decode(cut).is_none_or(|it| it.charges.len() < token.charges.len());
            prop_assert!(is_none);
        }

        #[test]
        fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            drop(LeaseToken::decode(&bytes));
        }
    }

    fn token(id: u128) -> LeaseToken {
        LeaseToken {
            id,
            issued: Timestamp::default(),
            expires: Timestamp::default(),
            taken: Timestamp::default(),
            node: 1,
            place: "a long name of a node, ".repeat(9),
            held: 0,
            charges: Vec::new(),
        }
    }

    /// The number of renewals once had 16 bits: after them, each renewal was taken for the one
    /// before.
    #[test]
    fn a_lease_has_another_number_after_each_renewal() {
        let mut lease = token(1);
        let mut ids = std::collections::HashSet::new();
        for _ in 0..70_000 {
            assert!(ids.insert(lease.id >> 72));
            lease.id = lease.next_id();
        }
        let read = LeaseToken::decode(&token(0).encode()).expect("it is one");
        assert_eq!(read.place.len(), MAX_NAME);
    }
}
