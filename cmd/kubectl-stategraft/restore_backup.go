package main

import (
	"context"
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// named has the name of a Backup object become that of its data in the storage, which
// is what Restores go by, and says so. A name that no Backup has is taken for one in
// the storage, as is any name where Backups cannot be read.
func named(ctx context.Context, t *terminal, at *reached, request *ask.Request) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := backup.Restorable(limited, at, request)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case found == nil:
		return nil
	}
	if inStorage := backup.InStorage(found); inStorage != request.Backup {
		fmt.Fprintf(t.err, "Backup %s is %s in the storage.\n", found.Name, inStorage)
		request.Backup = inStorage
	}
	if found.Status.Phase != api.BackupComplete {
		fmt.Fprintf(t.err, "Backup %s is not complete (%s).\n", found.Name, backup.Stands(found))
	}
	return nil
}
