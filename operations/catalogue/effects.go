package catalogue

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// fieldOwner is whose the ConfigMap's content is.
const fieldOwner = client.FieldOwner("stategraft-catalogue")

// eventMissing is the reason of the event on a Backup whose data have gone.
const eventMissing = "BackupMissing"

// create makes an object of a backup, and says what is in it.
func (c *Catalogue) create(ctx context.Context, b *api.Backup, has *node.Backup, listed time.Time) error {
	key := whereOf(b)
	b = b.DeepCopy()
	if err := c.world.Load().writer.Create(ctx, b); err != nil {
		c.notMade(key)
		return fmt.Errorf("making Backup %s/%s of what was found in the storage: %w", b.Namespace, b.Name, err)
	}
	fill(b, has, listed)
	if err := c.world.Load().writer.Status().Update(ctx, b); err != nil {
		return fmt.Errorf("writing the status of Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	c.log.V(1).Info("a backup was found in the storage", "namespace", b.Namespace, "backup", b.Name, "name", key.name, "phase", b.Status.Phase)
	return nil
}

// refill writes what is in a backup into an object that is there.
func (c *Catalogue) refill(ctx context.Context, was *api.Backup, has *node.Backup, listed time.Time) error {
	b := was.DeepCopy()
	if b.Found() {
		fill(b, has, listed)
	} else if !restored(b, has, listed) {
		return nil
	}
	if err := c.world.Load().writer.Status().Update(ctx, b); err != nil {
		return fmt.Errorf("writing the status of Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	return nil
}

// mark writes what a listing says of an object. What cannot be written the next round
// writes.
func (c *Catalogue) mark(ctx context.Context, m *mark, listed time.Time) {
	b := m.object.DeepCopy()
	m.apply(b, listed)
	if err := c.world.Load().writer.Status().Update(ctx, b); err != nil {
		if !passing(err) && ctx.Err() == nil {
			c.log.Error(err, "writing whether the storage has a backup", "namespace", b.Namespace, "backup", b.Name)
		}
		return
	}
	if m.missing {
		c.log.Info("a backup is not in the storage", "namespace", b.Namespace, "backup", b.Name, "name", whereOf(b).name, "reason", m.reason)
		c.world.Load().tell(b, eventMissing, m.message)
	}
}

// configMap is that of a namespace; nil if it has none.
func (c *Catalogue) configMap(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	err := c.world.Load().configMaps.Get(ctx, client.ObjectKey{Namespace: namespace, Name: api.ConfigMapCatalogue}, cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, api.ConfigMapCatalogue, err)
	}
	return cm, nil
}

// publish writes the ConfigMap where that says something new, is asked for, or has been
// as it is for long. It is applied: by its name the right to make it can be bound. What
// was asked for before the round is answered when nothing is left to do.
func (c *Catalogue) publish(ctx context.Context, namespace string, m *memory, asked *corev1.ConfigMap, documents []Document) error {
	answer, pending := "", 0
	for _, d := range documents {
		if d.Failed == "" {
			pending += d.Pending
		}
	}
	waits := false
	if asked != nil {
		answer = asked.Annotations[api.AnnotationSynced]
		if want := asked.Annotations[api.AnnotationSync]; pending == 0 && want != "" && want != answer {
			answer, waits = want, true
		}
	}
	// It may have been deleted during the round.
	now, err := c.configMap(ctx, namespace)
	if err != nil {
		return err
	}
	if now != nil && !waits && same(Documents(now), documents) && c.now().Sub(m.written) < c.every {
		return nil
	}
	configuration := corev1apply.ConfigMap(api.ConfigMapCatalogue, namespace).WithData(data(documents)).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": "stategraft"})
	if answer != "" {
		configuration = configuration.WithAnnotations(map[string]string{api.AnnotationSynced: answer})
	}
	if err := c.world.Load().writer.Apply(ctx, configuration, fieldOwner, client.ForceOwnership); err != nil {
		if passing(err) {
			return nil
		}
		return fmt.Errorf("writing ConfigMap %s/%s: %w", namespace, api.ConfigMapCatalogue, err)
	}
	m.written = c.now()
	return nil
}

// same tells whether documents differ in nothing but when they were made.
func same(a, b []Document) bool {
	was, is := map[string]Document{}, map[string]Document{}
	for _, d := range a {
		key := d.key()
		d.Listed, d.New = time.Time{}, 0
		was[key] = d
	}
	for _, d := range b {
		key := d.key()
		d.Listed, d.New = time.Time{}, 0
		is[key] = d
	}
	if len(was) != len(is) {
		return false
	}
	for key, d := range is {
		if was[key] != d {
			return false
		}
	}
	return true
}
