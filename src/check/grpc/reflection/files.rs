//! The `.proto` files of the services, as descriptors, and the search in them. Pure.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message as _;

use crate::check::grpc::messages::reflection::{
    FileDescriptor, FileDescriptorSet, GroupDescriptor, MessageDescriptor,
};

/// The files below `../proto`, compiled, with the files that they import. A test holds it to them.
pub const DESCRIPTORS: &[u8] = include_bytes!("../proto/descriptors.bin");

static FILES: LazyLock<Files> = LazyLock::new(|| Files::new(DESCRIPTORS));

/// The files.
#[derive(Debug, Default)]
pub struct Files {
    /// Each one as a `FileDescriptorProto`, and the names of those that it imports.
    files: Vec<(Vec<u8>, Vec<String>)>,
    /// By name.
    names: HashMap<String, usize>,
    /// The file of each symbol.
    symbols: HashMap<String, usize>,
    /// The names of messages among the symbols.
    messages: Vec<String>,
}

impl Files {
    /// Those of the program.
    pub fn all() -> &'static Self {
        &FILES
    }

    fn new(set: &[u8]) -> Self {
        let mut files = Self::default();
        let set = FileDescriptorSet::decode(set).unwrap_or_default();
        for (index, bytes) in set.file.into_iter().enumerate() {
            let file = FileDescriptor::decode(&bytes[..]).unwrap_or_default();
            files.names.insert(file.name.clone(), index);
            files.files.push((bytes, file.dependency));
            file.messages.iter().for_each(|it| files.message(&file.package, it, index));
            file.enums.iter().for_each(|it| files.values(&file.package, it, index));
            for service in &file.services {
                let name = files.symbol(&file.package, &service.name, index);
                service.members.iter().for_each(|it| drop(files.symbol(&name, &it.name, index)));
            }
        }
        files
    }

    fn symbol(&mut self, scope: &str, name: &str, file: usize) -> String {
        let name = format!("{scope}.{name}");
        self.symbols.insert(name.clone(), file);
        name
    }

    fn message(&mut self, scope: &str, it: &MessageDescriptor, file: usize) {
        let name = self.symbol(scope, &it.name, file);
        it.fields.iter().for_each(|it| drop(self.symbol(&name, &it.name, file)));
        it.messages.iter().for_each(|it| self.message(&name, it, file));
        it.enums.iter().for_each(|it| self.values(&name, it, file));
        self.messages.push(name);
    }

    /// The values of an enumeration are in the scope of the enumeration.
    fn values(&mut self, scope: &str, it: &GroupDescriptor, file: usize) {
        self.symbol(scope, &it.name, file);
        it.members.iter().for_each(|it| drop(self.symbol(scope, &it.name, file)));
    }

    /// The file with this name, and behind it those that it imports.
    pub fn named(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        self.names.get(name).map(|index| self.with_imports(*index))
    }

    /// The file that contains this symbol, and behind it those that it imports.
    pub fn containing(&self, symbol: &str) -> Option<Vec<Vec<u8>>> {
        self.symbols.get(symbol).map(|index| self.with_imports(*index))
    }

    /// Whether there is a message of this name.
    pub fn has_message(&self, name: &str) -> bool {
        self.messages.iter().any(|it| it == name)
    }

    fn with_imports(&self, index: usize) -> Vec<Vec<u8>> {
        let mut found = vec![index];
        let mut next = 0;
        while let Some(index) = found.get(next) {
            for name in &self.files[*index].1 {
                if let Some(import) = self.names.get(name).filter(|it| !found.contains(it)) {
                    found.push(*import);
                }
            }
            next += 1;
        }
        found.into_iter().map(|index| self.files[index].0.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: Option<Vec<Vec<u8>>>) -> Vec<String> {
        let name = |file: Vec<u8>| FileDescriptor::decode(&file[..]).expect("it is one").name;
        files.into_iter().flatten().map(name).collect()
    }

    #[test]
    fn a_file_comes_with_all_that_it_imports_once() {
        let files = Files::all();
        let mut found = names(files.named("envoy/service/ratelimit/v3/rls.proto"));
        assert_eq!(found[0], "envoy/service/ratelimit/v3/rls.proto");
        found.sort();
        let imports = [
            "envoy/config/core/v3/base.proto",
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
            "envoy/service/ratelimit/v3/rls.proto",
            "envoy/type/v3/ratelimit_unit.proto",
            "google/protobuf/duration.proto",
            "google/protobuf/struct.proto",
            "google/protobuf/wrappers.proto",
        ];
        assert_eq!(found, imports);
        assert_eq!(files.named("rls.proto"), None);
    }

    #[test]
    fn symbols_of_all_kinds_lead_to_their_file() {
        let files = Files::all();
        let v3 = "envoy.service.ratelimit.v3.";
        for symbol in [
            "RateLimitService",
            "RateLimitService.ShouldRateLimit",
            "RateLimitRequest",
            "RateLimitRequest.domain",
            "RateLimitResponse.RateLimit.Unit",
            "RateLimitResponse.RateLimit.WEEK",
        ] {
            let found = names(files.containing(&format!("{v3}{symbol}")));
            assert_eq!(
                found.first().map(String::as_str),
                Some("envoy/service/ratelimit/v3/rls.proto"),
                "{symbol}"
            );
        }
        for symbol in ["", "RateLimitService", "envoy.service.ratelimit.v3", "envoy.type.v3.Other"]
        {
            assert_eq!(files.containing(symbol), None, "{symbol}");
        }
        assert!(files.has_message("envoy.config.core.v3.HeaderMap"));
        assert!(!files.has_message("envoy.type.v3.StatusCode"));
    }
}
