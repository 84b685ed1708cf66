// Package wire has the messages of Anna: one frame of ZeroMQ holds one of them, a
// protobuf of proto3 or a plain string. They are written by hand with protowire:
// few, never to change, and read without a copy of the values.
//
// Reading never panics whatever the bytes are; unknown fields are skipped. Values,
// and nothing else, alias the bytes they were read from.
package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is the kind of every error of reading.
var ErrMalformed = errors.New("malformed message of Anna")

// field is one field of a message: a number or bytes, by its wire type.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// next reads the field at the start of b and tells how many bytes it has.
func next(b []byte) (field, int, error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return field{}, 0, fmt.Errorf("%w: a field's tag: %w", ErrMalformed, protowire.ParseError(n))
	}
	f := field{number: number, kind: kind}
	rest, size := b[n:], 0
	switch kind {
	case protowire.VarintType:
		f.value, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.value, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, size = protowire.ConsumeBytes(rest)
	default:
		size = protowire.ConsumeFieldValue(number, kind, rest)
	}
	if size < 0 {
		return field{}, 0, fmt.Errorf("%w: field %d: %w", ErrMalformed, number, protowire.ParseError(size))
	}
	return f, n + size, nil
}

// each calls visit for every field of a message.
func each(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// number is the value of a field that should be one: proto3 skips a field of
// another wire type, and so does this.
func (f field) number64(to *uint64) {
	if f.kind == protowire.VarintType {
		*to = f.value
	}
}

func (f field) text(to *string) {
	if f.kind == protowire.BytesType {
		*to = string(f.bytes)
	}
}

func appendNumber(b []byte, number protowire.Number, value uint64) []byte {
	if value == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), value)
}

func appendText(b []byte, number protowire.Number, value string) []byte {
	if value == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func appendBytes(b []byte, number protowire.Number, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// appendElement writes one of a repeated field, which is there even when empty.
func appendElement[T ~string | ~[]byte](b []byte, number protowire.Number, value T) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(value)))
	return append(b, value...)
}

// numberSize, bytesSize are the sizes of what appendNumber, appendBytes write: a
// message inside another is written after its length.
func numberSize(number protowire.Number, value uint64) int {
	if value == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeVarint(value)
}

func bytesSize(number protowire.Number, size int) int {
	if size == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeBytes(size)
}
