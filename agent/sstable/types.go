package sstable

import (
	"strconv"
	"strings"
)

// marshal is where Cassandra's types are.
const marshal = "org.apache.cassandra.db.marshal."

// lengths are those of the types whose values have one, in bytes (valueLengthIfFixed).
var lengths = map[string]int64{
	"BooleanType": 1, "EmptyType": 0, "Int32Type": 4, "FloatType": 4,
	"LongType": 8, "DoubleType": 8, "TimestampType": 8, "DateType": 8,
	"UUIDType": 16, "LexicalUUIDType": 16, "TimeUUIDType": 16, "LegacyTimeUUIDType": 16,
}

// fixed is how long the values of a type are, or -1 where each tells its own length.
func fixed(name string) int64 {
	name = strings.TrimPrefix(name, marshal)
	if length, ok := lengths[name]; ok {
		return length
	}
	kind, inner, ok := strings.Cut(name, "(")
	if !ok || !strings.HasSuffix(inner, ")") {
		return -1
	}
	inner = strings.TrimSuffix(inner, ")")
	switch kind {
	case "ReversedType":
		return fixed(inner)
	case "VectorType": // of a type and a dimension
		at := strings.LastIndex(inner, ",")
		if at < 0 {
			return -1
		}
		dimension, err := strconv.ParseInt(strings.TrimSpace(inner[at+1:]), 10, 32)
		if length := fixed(strings.TrimSpace(inner[:at])); err == nil && dimension > 0 && length >= 0 {
			return length * dimension
		}
	}
	return -1
}
