package patches

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"gomodules.xyz/jsonpatch/v2"
)

// buffers are kept, for patches of one kind of pod are all about as long.
var buffers = sync.Pool{New: func() any { return &object{text: make([]byte, 0, 16<<10)} }}

// Marshal encodes operations as a JSON patch (RFC 6902). It encodes to what
// encoding/json makes of them, without the detour by which an Operation
// encodes its value twice. The members of a map are sorted.
func Marshal(operations []jsonpatch.Operation) ([]byte, error) {
	o, _ := buffers.Get().(*object)
	defer buffers.Put(o)
	o.text = append(o.text[:0], '[')
	for i := range operations {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		op := &operations[i]
		o.begin()
		o.str("op", op.Operation)
		o.str("path", op.Path)
		if op.Operation != "remove" {
			o.name("value")
			if err := o.any(op.Value); err != nil {
				return nil, fmt.Errorf("encoding the patch: %s: %w", op.Path, err)
			}
		}
		o.end()
	}
	o.text = append(o.text, ']')
	return bytes.Clone(o.text), nil
}

// any writes a value: the types of this package by hand, others by reflection.
func (o *object) any(value any) error {
	var err error
	switch v := value.(type) {
	case string:
		o.quote(v)
		return nil
	case *Container:
		return braced(o, v, (*object).container)
	case **Container:
		return braced(o, *v, (*object).container)
	case *Volume:
		return braced(o, v, (*object).volume)
	case *VolumeMount:
		return braced(o, v, (*object).mount)
	}
	var text []byte
	if text, err = json.Marshal(value, json.Deterministic(true)); err != nil {
		return err
	}
	o.text = append(o.text, text...)
	o.open = true
	return nil
}

func braced[T any](o *object, value *T, write func(*object, *T) error) error {
	o.begin()
	err := write(o, value)
	o.end()
	return err
}
