//! `grpc.reflection`: which services there are, and what their messages contain, for tools such
//! as grpcurl. Both versions have the same messages.

mod files;

use http::{Request, Response};
use tollgate_core::drain::Drain;

#[cfg(test)]
pub use self::files::DESCRIPTORS;
use self::files::Files;
use super::body::AnswerBody;
use super::framing::Failed;
use super::messages::reflection::{
    Asked, ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse, Told,
};
use super::stream::answer_each;
use crate::check::settings::RpcServices;
use crate::server::ClientBody;

pub const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
pub const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
/// The largest question.
const MAX_BYTES: usize = 4096;
/// The code of what does not exist.
const NOT_FOUND: i32 = 5;

/// Answers the questions of one call.
pub fn answer(
    services: RpcServices,
    drain: &Drain,
    request: Request<ClientBody>,
) -> Response<AnswerBody> {
    answer_each(request.into_body(), MAX_BYTES, drain.clone(), move |question| {
        told(services, question)
    })
}

fn told(
    services: RpcServices,
    question: ServerReflectionRequest,
) -> Result<ServerReflectionResponse, Failed> {
    let files = Files::all();
    let found = match &question.asked {
        None => return Err(Failed::invalid("the message asks nothing")),
        Some(Asked::FileByFilename(name)) => files.named(name).map(of_files),
        Some(Asked::FileContainingSymbol(name)) => files.containing(name).map(of_files),
        // No message has extensions.
        Some(Asked::FileContainingExtension(_)) => None,
        Some(Asked::AllExtensionNumbersOfType(name)) => {
            let numbers = ExtensionNumberResponse {
                base_type_name: name.clone(),
                extension_number: Vec::new(),
            };
            files.has_message(name).then_some(Told::ExtensionNumbers(numbers))
        }
        Some(Asked::ListServices(_)) => Some(of_services(services)),
    };
    let absent = || ErrorResponse { error_code: NOT_FOUND, error_message: "not found".to_owned() };
    Ok(ServerReflectionResponse {
        valid_host: question.host.clone(),
        told: Some(found.unwrap_or_else(|| Told::Error(absent()))),
        original_request: Some(question),
    })
}

fn of_files(file_descriptor_proto: Vec<Vec<u8>>) -> Told {
    Told::Files(FileDescriptorResponse { file_descriptor_proto })
}

/// The services that are served. Reflection itself is, because it is asked.
fn of_services(services: RpcServices) -> Told {
    let names = [
        ("envoy.service.auth.v3.Authorization", services.authorization),
        ("envoy.service.ratelimit.v3.RateLimitService", services.ratelimit),
        ("grpc.health.v1.Health", true),
        ("grpc.reflection.v1.ServerReflection", true),
        ("grpc.reflection.v1alpha.ServerReflection", true),
    ];
    let served = names.into_iter().filter(|(_, is_served)| *is_served);
    let service = served.map(|(name, _)| ServiceResponse { name: name.to_owned() });
    Told::Services(ListServiceResponse { service: service.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: RpcServices = RpcServices { ratelimit: true, authorization: true };

    fn ask(asked: Asked) -> Told {
        let question = ServerReflectionRequest { host: "h".to_owned(), asked: Some(asked) };
        let answer = told(ALL, question.clone()).expect("it asks something");
        assert_eq!((&*answer.valid_host, answer.original_request), ("h", Some(question)));
        answer.told.expect("there is an answer")
    }

    #[test]
    fn each_service_that_is_listed_is_in_a_file() {
        let Told::Services(list) = ask(Asked::ListServices(String::new())) else {
            panic!("it is another answer")
        };
        assert_eq!(list.service.len(), 5);
        for service in list.service {
            let found = ask(Asked::FileContainingSymbol(service.name.clone()));
            assert!(matches!(found, Told::Files(_)), "{}", service.name);
        }
        let few = of_services(RpcServices { ratelimit: false, authorization: true });
        let Told::Services(few) = few else { panic!("it is another answer") };
        assert!(few.service.iter().all(|it| !it.name.contains("ratelimit")));
    }

    #[test]
    fn what_does_not_exist_is_not_found() {
        let name = || "other".to_owned();
        let extension = super::super::messages::reflection::ExtensionRequest::default();
        for asked in [
            Asked::FileByFilename(name()),
            Asked::FileContainingSymbol(name()),
            Asked::FileContainingExtension(extension),
            Asked::AllExtensionNumbersOfType(name()),
        ] {
            assert!(matches!(ask(asked), Told::Error(it) if it.error_code == 5));
        }
        let known = Asked::AllExtensionNumbersOfType("google.rpc.Status".to_owned());
        assert!(matches!(ask(known), Told::ExtensionNumbers(it) if it.extension_number.is_empty()));
        assert!(told(ALL, ServerReflectionRequest::default()).is_err());
    }
}
