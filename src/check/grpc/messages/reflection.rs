//! `grpc.reflection.v1`, which has the messages of `grpc.reflection.v1alpha` too, and the parts of
//! `google.protobuf.FileDescriptorProto` by which files are found.

use prost::{Message, Oneof};

/// A question about the services and their messages.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServerReflectionRequest {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(oneof = "Asked", tags = "3, 4, 5, 6, 7")]
    pub asked: Option<Asked>,
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Asked {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(message, tag = "5")]
    FileContainingExtension(ExtensionRequest),
    #[prost(string, tag = "6")]
    AllExtensionNumbersOfType(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

/// An extension of a message.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtensionRequest {
    #[prost(string, tag = "1")]
    pub containing_type: String,
    #[prost(int32, tag = "2")]
    pub extension_number: i32,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServerReflectionResponse {
    #[prost(string, tag = "1")]
    pub valid_host: String,
    #[prost(message, optional, tag = "2")]
    pub original_request: Option<ServerReflectionRequest>,
    #[prost(oneof = "Told", tags = "4, 5, 6, 7")]
    pub told: Option<Told>,
}

/// What is told.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Told {
    #[prost(message, tag = "4")]
    Files(FileDescriptorResponse),
    #[prost(message, tag = "5")]
    ExtensionNumbers(ExtensionNumberResponse),
    #[prost(message, tag = "6")]
    Services(ListServiceResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

/// Files, each as a `FileDescriptorProto`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FileDescriptorResponse {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub file_descriptor_proto: Vec<Vec<u8>>,
}

/// The numbers of the extensions of a message.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtensionNumberResponse {
    #[prost(string, tag = "1")]
    pub base_type_name: String,
    #[prost(int32, repeated, tag = "2")]
    pub extension_number: Vec<i32>,
}

/// The services.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListServiceResponse {
    #[prost(message, repeated, tag = "1")]
    pub service: Vec<ServiceResponse>,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServiceResponse {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ErrorResponse {
    /// A code of gRPC.
    #[prost(int32, tag = "1")]
    pub error_code: i32,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `google.protobuf.FileDescriptorSet`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FileDescriptorSet {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub file: Vec<Vec<u8>>,
}

/// `google.protobuf.FileDescriptorProto`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FileDescriptor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub package: String,
    #[prost(string, repeated, tag = "3")]
    pub dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub messages: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "5")]
    pub enums: Vec<GroupDescriptor>,
    #[prost(message, repeated, tag = "6")]
    pub services: Vec<GroupDescriptor>,
}

/// `google.protobuf.DescriptorProto`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MessageDescriptor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<Named>,
    #[prost(message, repeated, tag = "3")]
    pub messages: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "4")]
    pub enums: Vec<GroupDescriptor>,
}

/// `google.protobuf.EnumDescriptorProto` with its values, and `google.protobuf.ServiceDescriptorProto`
/// with its methods.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GroupDescriptor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Named>,
}

/// A field, a value or a method.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Named {
    #[prost(string, tag = "1")]
    pub name: String,
}
