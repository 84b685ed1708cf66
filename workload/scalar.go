package workload

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Quantity is a resource quantity as written: hand-written YAML also has bare
// numbers (cpu: 1).
type Quantity string

// UnmarshalJSONFrom accepts a string or a number.
func (q *Quantity) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := scalar(dec)
	*q = Quantity(text)
	return err
}

// IntOrString is a port as written, by number or by name.
type IntOrString string

// Is tells whether it is the number of the port.
func (p IntOrString) Is(port int32) bool {
	if p == "" || p[0] < '0' || p[0] > '9' {
		return false
	}
	n, err := strconv.ParseInt(string(p), 10, 32)
	return err == nil && int32(n) == port
}

// UnmarshalJSONFrom accepts a string or a number.
func (p *IntOrString) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := scalar(dec)
	*p = IntOrString(text)
	return err
}

func scalar(dec *jsontext.Decoder) (string, error) {
	switch dec.PeekKind() {
	case '"', '0', 'n':
		token, err := dec.ReadToken()
		if err != nil || token.Kind() == 'n' {
			return "", err
		}
		return token.String(), nil
	default:
		return "", &json.SemanticError{JSONKind: dec.PeekKind()}
	}
}
