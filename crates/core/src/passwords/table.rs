//! The users of a file in the form of Apache's `htpasswd`.

use std::collections::HashMap;
use std::fmt;

use super::hash::{BcryptHash, COSTS, HashFault};

/// The most lines of a file.
const MAX_LINES: usize = 100_000;
/// The longest name in bytes.
const MAX_NAME: usize = 255;
/// The cost of hashes of users that are not there, if there is no user.
const USUAL_COST: u8 = 10;
/// How a usual hash is made.
const REMEDY: &str = "make the line with htpasswd -B -C 10 FILE NAME";

/// Users and the hashes of their passwords.
#[derive(Clone)]
pub struct PasswordTable {
    users: HashMap<Box<str>, BcryptHash>,
    /// The hash that is checked for a name that no user has, so that the answer takes the same time.
    stand_in: BcryptHash,
}

/// What is wrong with a line of a file. It shows nothing of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFault {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub advice: &'static str,
}

/// The table without users.
impl Default for PasswordTable {
    fn default() -> Self {
        Self { users: HashMap::new(), stand_in: BcryptHash::stand_in(USUAL_COST) }
    }
}

/// Prints the number of users alone.
impl fmt::Debug for PasswordTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordTable({} users)", self.users.len())
    }
}

impl PasswordTable {
    /// Reads lines of the form `NAME:HASH`. Empty lines and lines that begin with `#` are ignored,
    /// and so is what follows a second colon.
    ///
    /// # Errors
    /// What is wrong with each line that cannot be used.
    pub fn parse(text: &str) -> Result<Self, Vec<LineFault>> {
        let mut users: HashMap<Box<str>, BcryptHash> = HashMap::new();
        let mut first_lines: HashMap<&str, usize> = HashMap::new();
        let mut faults = Vec::new();
        for (index, written) in text.lines().enumerate() {
            let line = index + 1;
            if line > MAX_LINES {
                let message = format!("the file has more than {MAX_LINES} lines");
                faults.push(LineFault { line, message, advice: "split the users over gateways" });
                break;
            }
            let written = written.trim_end();
            if written.is_empty() || written.starts_with('#') {
                continue;
            }
            match entry(written) {
                Err((message, advice)) => faults.push(LineFault { line, message, advice }),
                Ok((name, hash)) => {
                    if let Some(first) = first_lines.insert(name, line) {
                        let message = format!("the user of line {first} is here again");
                        faults.push(LineFault { line, message, advice: "remove one of the lines" });
                    }
                    users.insert(name.into(), hash);
                }
            }
        }
        if faults.is_empty() { Ok(Self::new(users)) } else { Err(faults) }
    }

    fn new(users: HashMap<Box<str>, BcryptHash>) -> Self {
        let stand_in = BcryptHash::stand_in(most_frequent_cost(users.values()));
        Self { users, stand_in }
    }

    /// The hash of the password of a user. If there is no such user, it is one for which no
    /// password is known, with the cost that most users have.
    pub fn hash(&self, user: &str) -> &BcryptHash {
        self.users.get(user).unwrap_or(&self.stand_in)
    }

    /// Whether there is a user with this name.
    pub fn contains(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

fn most_frequent_cost<'h>(hashes: impl Iterator<Item = &'h BcryptHash>) -> u8 {
    let mut users_by_cost: HashMap<u8, usize> = HashMap::new();
    hashes.for_each(|hash| *users_by_cost.entry(hash.cost()).or_default() += 1);
    let most = users_by_cost.into_iter().max_by_key(|(cost, users)| (*users, *cost));
    most.map_or(USUAL_COST, |(cost, _)| cost)
}

/// The name and the hash of a line.
fn entry(line: &str) -> Result<(&str, BcryptHash), (String, &'static str)> {
    let Some((name, rest)) = line.split_once(':') else {
        return Err(("the line has no colon between a name and a hash".to_owned(), REMEDY));
    };
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        let message = format!("a name has 1 to {MAX_NAME} bytes, and no control character");
        return Err((message, "choose another name"));
    }
    let hash = rest.split(':').next().unwrap_or_default();
    let hash = BcryptHash::parse(hash).map_err(|fault| (told(fault), REMEDY))?;
    Ok((name, hash))
}

fn told(fault: HashFault) -> String {
    match fault {
        HashFault::Other(algorithm) => {
            format!("the hash is of {algorithm}, and only bcrypt is accepted")
        }
        HashFault::NoHash => "the line has a password where a bcrypt hash belongs".to_owned(),
        HashFault::Malformed => "the bcrypt hash is not complete".to_owned(),
        HashFault::Cost(cost) => {
            let least = COSTS.start();
            let most = COSTS.end();
            format!("the cost of the bcrypt hash is {cost}, and it may be {least} to {most}")
        }
    }
}
