package wire

import (
	"reflect"
	"testing"
)

// Whatever comes from the network: no panic, and what can be read is the same after
// it was written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x08\x01\x12\x03\x0a\x01k\x1a\x09tcp://h:1\x22\x01i"))
	f.Add([]byte("\x0a\x0a\x08\x02\x12\x06\x0a\x01p\x12\x01q"))
	f.Add([]byte("\x0a\x05\x0a\x01a\x10\x01\x12\x0a\x0a\x01k\x12\x05\x0a\x01b\x10\x02\x1a\x01v"))
	f.Add([]byte("\x09\x00\x00\x00\x00\x00\x00\xf0\xbf\x12\x01v"))
	f.Fuzz(func(t *testing.T, b []byte) {
		stable(t, b, (*KeyRequest).Append, ParseKeyRequest)
		stable(t, b, (*KeyResponse).Append, ParseKeyResponse)
		stable(t, b, (*AddressRequest).Append, ParseAddressRequest)
		stable(t, b, (*AddressResponse).Append, ParseAddressResponse)
		stable(t, b, (*Membership).Append, ParseMembership)
		stable(t, b, appendsTo(AppendLWW), ParseLWW)
		stable(t, b, appendsTo(AppendSet), ParseSet)
		stable(t, b, appendsTo(AppendSingleCausal), ParseSingleCausal)
		stable(t, b, appendsTo(AppendMultiCausal), ParseMultiCausal)
		stable(t, b, appendsTo(AppendPriority), ParsePriority)
		scansAlike(t, b)
		n, failed := 0, false
		for _, err := range KeySizes(b) {
			if failed {
				t.Fatal("something after an error")
			}
			failed, n = err != nil, n+1
		}
		ParseNotice(string(b))
		ParseAddress(string(b))
	})
}

func stable[T any](t *testing.T, b []byte, write func(*T, []byte) []byte, read func([]byte) (T, error)) {
	t.Helper()
	first, err := read(b)
	if err != nil {
		return
	}
	once := write(&first, nil)
	second, err := read(once)
	if err != nil {
		t.Fatalf("%T: what was written cannot be read: %v", first, err)
	}
	if twice := write(&second, nil); string(twice) != string(once) {
		t.Fatalf("%T: %q, then %q", first, once, twice)
	}
}

func scansAlike(t *testing.T, b []byte) {
	t.Helper()
	whole, err := ParseKeyResponse(b)
	var scanned []Tuple
	scanErr := ScanKeyResponse(b, func(r RawTuple) { scanned = append(scanned, r.tuple()) })
	if err != nil || scanErr != nil {
		return
	}
	if !reflect.DeepEqual(whole.Tuples, scanned) {
		t.Fatalf("%+v, scanned %+v", whole.Tuples, scanned)
	}
}
