package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// Seal encrypts what is small to those for whom packs are encrypted.
func (s *Store) Seal(content []byte) ([]byte, error) {
	var sealed bytes.Buffer
	to, err := age.Encrypt(&sealed, s.recipients...)
	if err == nil {
		_, err = to.Write(content)
	}
	if err == nil {
		err = to.Close()
	}
	return sealed.Bytes(), err
}

// Unseal decrypts it: ErrNoKey where none of the keys does.
func Unseal(sealed []byte, identities []age.Identity) ([]byte, error) {
	if len(identities) == 0 {
		return nil, ErrNoKey
	}
	from, err := age.Decrypt(bytes.NewReader(sealed), identities...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, ErrNoKey
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	content, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return content, nil
}
