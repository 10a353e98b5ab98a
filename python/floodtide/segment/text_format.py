# SPDX-License-Identifier: Apache-2.0
"""Messages in protobuf's text format, read by protobuf itself with a schema that is written in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import Message

from floodtide.errors import InvalidFileError

_PACKAGE = "floodtide"
_KINDS = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _KINDS.TYPE_STRING,
    "float": _KINDS.TYPE_FLOAT,
    "int32": _KINDS.TYPE_INT32,
    "int64": _KINDS.TYPE_INT64,
    "uint64": _KINDS.TYPE_UINT64,
    "bool": _KINDS.TYPE_BOOL,
}


@dataclass(frozen=True)
class Field:
    """A field of a message.

    Attributes:
        tag: Its number.
        kind: "string", "float", "int32", "int64", "uint64" or "bool"; the schema of a message; or the names of an enum
            {name: number}.
        repeated: Whether it may be given several times.
    """

    tag: int
    kind: str | Mapping[str, Any]
    repeated: bool = False

    @property
    def is_enum(self) -> bool:
        """Return True if the field has one of a few names."""
        return not isinstance(self.kind, str) and all(type(v) is int for v in self.kind.values())


Schema = Mapping[str, Field]


def parse(text: str, schema: Schema, name: str, where: str) -> dict[str, Any]:
    """Return the message of a text.

    Args:
        text: In protobuf's text format.
        schema: The fields of the message.
        name: Name of the message.
        where: The file, for errors.

    Returns:
        The fields that are set, nested dictionaries with lists for repeated fields.

    Raises:
        InvalidFileError: If the text is not in the format, or a field is unknown, of another type or given twice. The
            message names file, line, column and field.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=_PACKAGE)
    _describe(file.message_type.add(), schema, name, f".{_PACKAGE}.{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise InvalidFileError(f"{where}:{str(error).replace(f'{_PACKAGE}.', '')}") from None
    return _plain(message)


def _describe(out: descriptor_pb2.DescriptorProto, schema: Schema, name: str, path: str) -> None:
    """Describe a message to protobuf, with its messages inside it."""
    out.name = name
    for title, field in schema.items():
        row = out.field.add(name=title, number=field.tag)
        row.label = _KINDS.LABEL_REPEATED if field.repeated else _KINDS.LABEL_OPTIONAL
        if isinstance(field.kind, str):
            row.type = _TYPES[field.kind]
            continue
        inner = "".join(word.capitalize() for word in title.split("_"))
        row.type_name = f"{path}.{inner}"
        if field.is_enum:
            row.type = _KINDS.TYPE_ENUM
            kinds = out.enum_type.add(name=inner)
            for value, number in field.kind.items():
                kinds.value.add(name=value, number=number)
        else:
            row.type = _KINDS.TYPE_MESSAGE
            _describe(out.nested_type.add(), field.kind, inner, f"{path}.{inner}")


def _plain(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        many = not isinstance(value, (str, int, float, Message))
        plain = [_plain(v) if isinstance(v, Message) else v for v in (value if many else [value])]
        out[field.name] = plain if many else plain[0]
    return out
