//! The file as operators read and write it: on threads that may wait for the disk.

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::task::spawn_blocking;

use super::KeysFile;
use crate::api_keys::{KeyDigest, KeyId};
use crate::store::keys::{
    Expected, KeyStorage, KeyWrite, StorageError, StoredRecord, TeamWrite, Written,
};

impl KeysFile {
    /// Does something on a thread that may wait.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let file = self.clone();
        let done = spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(StorageError::Away(error.to_string())))
    }
}

impl KeyStorage for KeysFile {
    fn read_keys<'a>(
        &'a self,
        ids: &'a [KeyId],
    ) -> LocalBoxFuture<'a, Result<Vec<Option<StoredRecord>>, StorageError>> {
        let ids = ids.to_vec();
        self.aside(move |file| file.read_keys(&ids)).boxed_local()
    }

    fn id_of<'a>(
        &'a self,
        digest: &'a KeyDigest,
    ) -> LocalBoxFuture<'a, Result<Option<KeyId>, StorageError>> {
        let digest = *digest;
        self.aside(move |file| file.id_of(&digest)).boxed_local()
    }

    fn ids(
        &self,
        part: usize,
        after: Option<KeyId>,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<KeyId>, StorageError>> {
        self.aside(move |file| file.ids(part, after, most)).boxed_local()
    }

    fn write_key<'a>(
        &'a self,
        write: KeyWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>> {
        let KeyWrite { id, expected, record, lasts, foreign } = write;
        let expected: Expected = expected.clone();
        let record = record.to_vec();
        let foreign = foreign.to_vec();
        self.aside(move |file| {
            let expected = &expected;
            let record = &*record;
            let foreign = &*foreign;
            file.write_key(KeyWrite { id, expected, record, lasts, foreign })
                .map(Written::announced)
        })
        .boxed_local()
    }

    fn read_team<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalBoxFuture<'a, Result<Option<StoredRecord>, StorageError>> {
        let name = name.to_owned();
        self.aside(move |file| file.read_team(&name)).boxed_local()
    }

    fn teams(&self) -> LocalBoxFuture<'_, Result<Vec<StoredRecord>, StorageError>> {
        self.aside(Self::teams).boxed_local()
    }

    fn write_team<'a>(
        &'a self,
        write: TeamWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>> {
        let TeamWrite { name, expected, record } = write;
        let name = name.to_owned();
        let record = record.to_vec();
        let expected: Expected = expected.clone();
        self.aside(move |file| {
            let write = TeamWrite { name: &name, expected: &expected, record: &record };
            file.write_team(write).map(Written::announced)
        })
        .boxed_local()
    }

    /// The file itself is the sign.
    fn begin(&self) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        std::future::ready(Ok(())).boxed_local()
    }
}
