package offline

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Orders are what the pods of a Restore are to do, by their names whatever namespace
// they are in.
type Orders func(namespace, pod string) (api.Order, bool)

// ReadRestore reads a Restore with its status, as kubectl get -o yaml prints it, from a
// file. All of its pods count as pending: what they would get is to be seen before it
// begins and when it is over.
func ReadRestore(r io.Reader, file string) (Orders, error) {
	documents, err := Read(r, file)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 || documents[0].Kind != "Restore" {
		return nil, &InputError{File: file, Message: fmt.Sprintf("it has %d documents; it has to be one Restore", len(documents))}
	}
	d := documents[0]
	restore := &api.Restore{}
	if err := yaml.UnmarshalStrict(d.JSON, restore); err != nil {
		return nil, &InputError{d.File, d.Index, jsonField(err), err.Error()}
	}
	if len(restore.Status.Pods) == 0 {
		return nil, &InputError{d.File, d.Index, "status.pods", "it has no plan yet: what its pods get is settled when it was checked (with spec.dryRun nothing is done)"}
	}
	if restore.Status.ID == "" {
		restore.Status.ID = restore.RequestID()
	}
	restore.Status.Pending = nil
	for _, pod := range restore.Status.Pods {
		restore.Status.Pending = append(restore.Status.Pending, pod.Name)
	}
	return func(_, pod string) (api.Order, bool) { return restore.Order(pod) }, nil
}
