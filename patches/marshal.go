package patches

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"gomodules.xyz/jsonpatch/v2"
)

// encoders are kept for their buffers.
var encoders = sync.Pool{New: func() any { return &patchEncoder{} }}

type patchEncoder struct {
	buffer  bytes.Buffer
	encoder jsontext.Encoder
}

// Marshal encodes operations as a JSON patch (RFC 6902). It encodes to what
// encoding/json makes of them, without the detour by which an Operation
// encodes its value twice. The members of a map are sorted.
func Marshal(operations []jsonpatch.Operation) ([]byte, error) {
	e, _ := encoders.Get().(*patchEncoder)
	defer encoders.Put(e)
	e.buffer.Reset()
	e.encoder.Reset(&e.buffer, json.Deterministic(true))
	if err := e.operations(operations); err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return bytes.Clone(bytes.TrimSpace(e.buffer.Bytes())), nil
}

func (e *patchEncoder) operations(operations []jsonpatch.Operation) error {
	if err := e.encoder.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for i := range operations {
		op := &operations[i]
		for _, token := range [...]jsontext.Token{
			jsontext.BeginObject,
			jsontext.String("op"), jsontext.String(op.Operation),
			jsontext.String("path"), jsontext.String(op.Path),
		} {
			if err := e.encoder.WriteToken(token); err != nil {
				return err
			}
		}
		if op.Operation != "remove" {
			if err := e.encoder.WriteToken(jsontext.String("value")); err != nil {
				return err
			}
			if err := json.MarshalEncode(&e.encoder, op.Value); err != nil {
				return fmt.Errorf("%s: %w", op.Path, err)
			}
		}
		if err := e.encoder.WriteToken(jsontext.EndObject); err != nil {
			return err
		}
	}
	return e.encoder.WriteToken(jsontext.EndArray)
}
