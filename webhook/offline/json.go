package offline

import (
	stdbufio "bufio"
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

func bufio(text []byte) *stdbufio.Reader { return stdbufio.NewReader(bytes.NewReader(text)) }

// at finds the value at a JSON pointer of plain member names.
func at(raw []byte, pointer string) (json.RawMessage, bool) {
	value := json.RawMessage(raw)
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if name == "" {
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return nil, false
		}
		next, ok := members[name]
		if !ok {
			return nil, false
		}
		value = bytes.TrimSpace(next)
	}
	return value, true
}

var arrayIndex = regexp.MustCompile(`/(\d+)(/|$)`)

// field writes a JSON pointer as kubectl writes paths: spec.containers[0].env.
func field(pointer string) string {
	for arrayIndex.MatchString(pointer) {
		pointer = arrayIndex.ReplaceAllString(pointer, "[$1]$2")
	}
	path := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(path)
}

func jsonField(err error) string {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return typed.Field
	}
	return ""
}
