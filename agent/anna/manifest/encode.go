package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrDamaged says that a manifest is not what was written.
var ErrDamaged = errors.New("the manifest is damaged")

// The end of a manifest: its checksum is that of all its bytes with zeros in its place.
const (
	checksumBefore = `"checksum": "`
	checksumAfter  = "\"\n}\n"
	sumSize        = 2 * sha256.Size
)

var zeros = strings.Repeat("0", sumSize)

// Encode writes it, with its checksum.
func (m Manifest) Encode() ([]byte, error) {
	m.Checksum = zeros
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ")
	if err := to.Encode(m); err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	content := b.Bytes()
	sum := sha256.Sum256(content)
	hex.Encode(content[len(content)-len(checksumAfter)-sumSize:], sum[:])
	return content, nil
}

// Seal sets the checksum, of a manifest that is not changed any more.
func (m *Manifest) Seal() error {
	content, err := m.Encode()
	if err != nil {
		return err
	}
	m.Checksum = string(content[len(content)-len(checksumAfter)-sumSize : len(content)-len(checksumAfter)])
	return nil
}

// Parse reads a manifest and verifies its checksum, over every byte of it.
func Parse(content []byte) (Manifest, error) {
	var m Manifest
	at := len(content) - len(checksumAfter) - sumSize
	if at < len(checksumBefore) || !bytes.HasSuffix(content[:at], []byte(checksumBefore)) || !bytes.HasSuffix(content, []byte(checksumAfter)) {
		return m, fmt.Errorf("%w: its end is missing", ErrDamaged)
	}
	h := sha256.New()
	h.Write(content[:at])
	h.Write([]byte(zeros))
	h.Write(content[at+sumSize:])
	if hex.EncodeToString(h.Sum(nil)) != string(content[at:at+sumSize]) {
		return m, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Version > Version {
		return Manifest{}, fmt.Errorf("the manifest has version %d, and this program reads %d: it was made by a newer stategraft-anna; use that", m.Version, Version)
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// check refuses what no backup writes.
func (m *Manifest) check() error {
	if m.Version < 1 || m.Name == "" || m.Node == "" {
		return fmt.Errorf("it lacks its version, name or node")
	}
	for i, p := range m.Packs {
		_, err := hex.DecodeString(p.SHA256)
		switch {
		case p.Object == "":
			return fmt.Errorf("pack %d has no name", i)
		case p.Size < 0 || p.Records < 0 || p.Plain < 0:
			return fmt.Errorf("pack %s has a negative size", p.Object)
		case err != nil || len(p.SHA256) != sumSize:
			return fmt.Errorf("pack %s has no checksum", p.Object)
		case len(p.Used) > 0 && int64(len(p.Used)) != (p.Records+7)/8:
			return fmt.Errorf("pack %s has %d records, and the bitmap of those used is for another number", p.Object, p.Records)
		}
	}
	return nil
}
