"""The messages of the Open Inference Protocol over gRPC (grpc_service.proto, package `inference`), made when they are
first used: field names, numbers and types are the published interface, so no generated code is kept here.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

PACKAGE, SERVICE = "inference", "GRPCInferenceService"
_PARAMETERS = "map<InferParameter> parameters"
#: message -> its fields ("[repeated|map<value>|oneof] type name"), each followed by its number
MESSAGES = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "bool live 1",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "bool ready 1",
    "ModelReadyRequest": "string name 1, string version 2",
    "ModelReadyResponse": "bool ready 1",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "string name 1, string version 2, repeated string extensions 3",
    "ModelMetadataRequest": "string name 1, string version 2",
    "ModelMetadataResponse.TensorMetadata": "string name 1, string datatype 2, repeated int64 shape 3",
    "ModelMetadataResponse": "string name 1, repeated string versions 2, string platform 3, "
    "repeated ModelMetadataResponse.TensorMetadata inputs 4, repeated ModelMetadataResponse.TensorMetadata outputs 5",
    "InferParameter": "oneof bool bool_param 1, oneof int64 int64_param 2, oneof string string_param 3, "
    "oneof double double_param 4, oneof uint64 uint64_param 5",
    "InferTensorContents": "repeated bool bool_contents 1, repeated int32 int_contents 2, "
    "repeated int64 int64_contents 3, repeated uint32 uint_contents 4, repeated uint64 uint64_contents 5, "
    "repeated float fp32_contents 6, repeated double fp64_contents 7, repeated bytes bytes_contents 8",
    "ModelInferRequest.InferInputTensor": f"string name 1, string datatype 2, repeated int64 shape 3, {_PARAMETERS} 4, "
    "InferTensorContents contents 5",
    "ModelInferRequest.InferRequestedOutputTensor": f"string name 1, {_PARAMETERS} 2",
    "ModelInferRequest": f"string model_name 1, string model_version 2, string id 3, {_PARAMETERS} 4, "
    "repeated ModelInferRequest.InferInputTensor inputs 5, "
    "repeated ModelInferRequest.InferRequestedOutputTensor outputs 6, repeated bytes raw_input_contents 7",
    "ModelInferResponse.InferOutputTensor": "string name 1, string datatype 2, repeated int64 shape 3, "
    f"{_PARAMETERS} 4, InferTensorContents contents 5",
    "ModelInferResponse": f"string model_name 1, string model_version 2, string id 3, {_PARAMETERS} 4, "
    "repeated ModelInferResponse.InferOutputTensor outputs 5, repeated bytes raw_output_contents 6",
    "ModelRepositoryParameter": "oneof bool bool_param 1, oneof int64 int64_param 2, oneof string string_param 3, "
    "oneof bytes bytes_param 4",
    "RepositoryIndexRequest": "string repository_name 1, bool ready 2",
    "RepositoryIndexResponse.ModelIndex": "string name 1, string version 2, string state 3, string reason 4",
    "RepositoryIndexResponse": "repeated RepositoryIndexResponse.ModelIndex models 1",
    "RepositoryModelLoadRequest": "string repository_name 1, string model_name 2, "
    "map<ModelRepositoryParameter> parameters 3",
    "RepositoryModelLoadResponse": "",
    "RepositoryModelUnloadRequest": "string repository_name 1, string model_name 2, "
    "map<ModelRepositoryParameter> parameters 3",
    "RepositoryModelUnloadResponse": "",
}
METHODS = (
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "RepositoryIndex",
    "RepositoryModelLoad", "RepositoryModelUnload",
)  # fmt: skip


@cache
def messages() -> Any:
    """The classes of the messages by their names, with _ for each dot; in a pool of their own, so that other packages
    may have the same."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="pdl/grpc_service.proto", package=PACKAGE, syntax="proto3")
    made: dict[str, Any] = {}
    for name in sorted(MESSAGES, key=lambda each: each.count(".")):  # the outer ones first
        outer, _, inner = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=inner)
    for name, text in MESSAGES.items():
        for each in filter(None, text.split(", ")):
            kind, field, number = each.rsplit(" ", 2)
            _add(made[name], name, kind, field, number, descriptor_pb2.FieldDescriptorProto)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in MESSAGES}
    return SimpleNamespace(
        **{name.replace(".", "_"): message_factory.GetMessageClass(each) for name, each in found.items()}
    )


def _add(message: Any, of: str, kind: str, name: str, number: str, field: Any) -> None:
    lead, _, word = kind.rpartition(" ")
    if kind.startswith("map<"):
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add(entry, of, "string", "key", "1", field)
        _add(entry, of, kind[4:-1], "value", "2", field)
        lead, word = "repeated", f"{of}.{entry.name}"
    made = message.field.add(name=name, number=int(number))
    made.label = field.LABEL_REPEATED if lead == "repeated" else field.LABEL_OPTIONAL
    if lead == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        made.oneof_index = 0
    scalar = getattr(field, f"TYPE_{word.upper()}", None)
    if scalar is not None:
        made.type = scalar
    else:
        made.type, made.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{word}"
