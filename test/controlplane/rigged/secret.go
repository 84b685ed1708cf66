package rigged

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const servingSecret = "stategraft-webhook-tls"

// mountSecret keeps the webhook's Secret in a folder until the rig is stopped, as
// the kubelet keeps a volume: all files change at once, by a link that is swapped.
// It returns once there is a certificate, with the CA.
func (r *Rig) mountSecret(ctx context.Context, dir string) (ca []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the certificate: %w", err)
	}
	m := &mount{dir: dir}
	update := func(ctx context.Context) error {
		secret, err := r.Client.CoreV1().Secrets(homeNamespace).Get(ctx, servingSecret, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", servingSecret, err)
		}
		ca = secret.Data["ca.crt"]
		return m.write(secret.Data)
	}
	if err := poll(ctx, "the controller to make a certificate", func() (bool, error) {
		err := update(ctx)
		return m.generation > 0, err
	}); err != nil {
		return nil, err
	}
	first := bytes.Clone(ca)
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	r.unmount = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for {
			select {
			case <-follow.Done():
				return
			case <-time.After(mountInterval):
			}
			_ = update(follow) // the API server may be restarting
		}
	}()
	return first, nil
}

// mountInterval is how soon a change is seen. The kubelet takes up to two
// minutes.
const mountInterval = time.Second

// mount is a folder with files that are replaced together.
type mount struct {
	dir        string
	current    map[string][]byte
	generation int
}

// write makes the files those of data, where it holds a pair.
func (m *mount) write(data map[string][]byte) error {
	names := []string{"tls.crt", "tls.key"}
	changed := false
	for _, name := range names {
		if len(data[name]) == 0 {
			return nil
		}
		changed = changed || !bytes.Equal(data[name], m.current[name])
	}
	if !changed {
		return nil
	}
	generation := strconv.Itoa(m.generation + 1)
	folder := filepath.Join(m.dir, generation)
	left := []error{os.Mkdir(folder, 0o700)}
	for _, name := range names {
		left = append(left, os.WriteFile(filepath.Join(folder, name), data[name], 0o600))
		if m.generation == 0 {
			left = append(left, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	swap := filepath.Join(m.dir, "..data_tmp")
	left = append(left, os.Symlink(generation, swap), os.Rename(swap, filepath.Join(m.dir, "..data")))
	if err := errors.Join(left...); err != nil {
		return fmt.Errorf("writing the certificate: %w", err)
	}
	m.current = data
	m.generation++
	return nil
}
