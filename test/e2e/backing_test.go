package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A schedule of every minute, rows written and pods deleted all the time: each backup
// that says it is complete goes back to the rows it had, no two overlap, and retention
// leaves what it says, after a backup that runs.
func TestScheduleEveryMinute(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 75*time.Minute)
	const nodes = 2
	step := stepper(t)
	c, err := e.Cassandra(ctx, "minutely", Setup{Replicas: nodes})
	step("ready", err)
	stop, err := c.Writing(ctx, "e2e", nodes)
	step("writing", err)
	keepLast := int32(2)
	step("schedule made", c.AskSchedule(ctx, "every", api.BackupScheduleSpec{
		Schedule: "* * * * *", Retention: &api.BackupRetention{KeepLast: &keepLast, DryRun: true},
		Template: api.BackupTemplate{Spec: api.BackupSpec{Timeout: &metav1.Duration{Duration: 5 * time.Minute}}},
	}))
	deleted := disturb(ctx, t, c, time.Duration(minutes())*time.Minute)
	step("no further run", c.PatchSchedule(ctx, "every", `{"spec":{"schedule":"0 0 29 2 *"}}`))
	_, err = c.AwaitSchedule(ctx, "every", 8*time.Minute, "quiet", func(s *api.BackupSchedule) bool { return s.Status.Active == "" && s.Status.Pending == "" })
	step("all over", err)
	written, err := stop()
	step("written", err)
	all, err := c.Backups(ctx)
	step("listed", err)
	t.Logf("%d backups: %s", len(all), phases(all))
	if err := overlap(all); err != nil {
		t.Error(err)
	}
	complete := slices.DeleteFunc(slices.Clone(all), func(b api.Backup) bool { return b.Status.Phase != api.BackupComplete })
	if len(complete) < minutes()/2 || len(all) > minutes()+2 {
		t.Errorf("%d backups in %d minutes, of which %d are complete", len(all), minutes(), len(complete))
	}
	restored := 0
	for i, b := range complete {
		name := fmt.Sprintf("r%02d", i)
		step("asked", c.Asked(ctx, name, api.RestoreSpec{Backup: b.Status.Name, Pods: c.Of()}))
		_, err := c.Restored(ctx, name, 8*time.Minute)
		step("restored "+b.Name, err)
		keys, err := c.Keys(ctx, "e2e")
		step("read", err)
		if err := written.Check(keys, b.Status.Started.Time, b.Status.Finished.Time); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		restored += len(keys)
	}
	figure(t, "%d minutes, %d rows written, %d pods deleted: %s; each complete one restored, %d rows in all; no overlap", minutes(), len(written.Sent), deleted, phases(all), restored)
	purgeWaits(ctx, t, c, all, complete)
}

// disturb deletes the second pod now and then, sometimes while a backup runs.
func disturb(ctx context.Context, t *testing.T, c *Cassandra, lasts time.Duration) (deleted int) {
	t.Helper()
	end := time.Now().Add(lasts)
	for next := time.Now().Add(80 * time.Second); time.Now().Before(end); {
		time.Sleep(200 * time.Millisecond)
		if time.Now().Before(next) || time.Until(end) < time.Minute {
			continue
		}
		if deleted%2 == 0 { // the first one in the middle of a backup
			all, err := c.Backups(ctx)
			if err != nil || !slices.ContainsFunc(all, func(b api.Backup) bool { return b.Status.Phase == api.BackupRunning }) {
				continue
			}
		}
		if err := c.e.DeletePod(ctx, c.Namespace, c.Pod(1)); err != nil {
			t.Errorf("deleting a pod: %v", err)
		}
		deleted++
		next = time.Now().Add(2 * time.Minute)
	}
	return deleted
}

// purgeWaits has retention asked for while a backup runs: nothing is deleted before it
// is over, and then what the rules leave is there and whole.
func purgeWaits(ctx context.Context, t *testing.T, c *Cassandra, all, complete []api.Backup) {
	t.Helper()
	step := stepper(t)
	step("ready", c.AllReady(ctx, 5*time.Minute))
	step("written", c.WriteLarge(ctx, "more", 2, 0, 4000, 2500))
	before, err := c.Read(ctx, "more")
	step("read", err)
	step("asked", c.AskBackup(ctx, "byhand", api.BackupSpec{Type: api.BackupFull}))
	_, err = c.BackupUntil(ctx, "byhand", time.Minute, "running", func(b *api.Backup) bool { return b.Status.Phase == api.BackupRunning })
	step("running", err)
	step("purge asked for", c.PatchSchedule(ctx, "every", `{"spec":{"retention":{"dryRun":false}}}`))
	held := ""
	for {
		s, err := c.Schedule(ctx, "every")
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Backups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(list, func(b api.Backup) bool { return b.Name == "byhand" && !b.Status.Phase.Final() }) {
			break
		}
		if r := s.Status.Retention; r != nil && r.Held != "" {
			held = r.Held
		}
		for _, b := range list {
			if b.DeletionTimestamp != nil {
				t.Errorf("%s is being deleted while a backup runs", b.Name)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	if held != "BackupActive" {
		t.Errorf("retention was held for %q while a backup ran", held)
	}
	byhand, err := c.Ends(ctx, "byhand", time.Minute)
	step("over", err)
	if byhand.Status.Phase != api.BackupComplete {
		t.Errorf("the backup beside which a purge was asked for is %s: %s", byhand.Status.Phase, byhand.Status.Message)
	}
	want := []string{"byhand", complete[len(complete)-1].Name, complete[len(complete)-2].Name}
	slices.Sort(want)
	kept := func(list []api.Backup) []string {
		return objectNames(slices.DeleteFunc(list, func(b api.Backup) bool { return b.Status.Phase != api.BackupComplete }))
	}
	var list []api.Backup
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); time.Sleep(time.Second) {
		if list, err = c.Backups(ctx); err == nil && slices.Equal(kept(slices.Clone(list)), want) {
			break
		}
	}
	if got := kept(slices.Clone(list)); !slices.Equal(got, want) {
		s, err := c.Schedule(ctx, "every")
		t.Errorf("retention left %v, and ought to leave %v (%v); %+v", got, want, err, s.Status)
	}
	// What is in the storage and has no object would be found again.
	out, err := c.e.Stategraft(ctx, "sync", "-n", c.Namespace)
	t.Log(out)
	step("synced", err)
	list, err = c.Backups(ctx)
	step("listed", err)
	if got := kept(slices.Clone(list)); !slices.Equal(got, want) {
		t.Errorf("after a sync there are %v, want %v", got, want)
	}
	// What was deleted has taken nothing along.
	step("asked", c.Asked(ctx, "kept", api.RestoreSpec{Backup: byhand.Status.Name, Pods: c.Of()}))
	_, err = c.Restored(ctx, "kept", 8*time.Minute)
	step("restored", err)
	if after, err := c.Read(ctx, "more"); err != nil || after != before {
		t.Errorf("after retention the backup restores to %+v, want %+v (%v)", after, before, err)
	}
	figure(t, "a purge asked for in mid-backup waited (%s), then left %d of %d; the newest of them restored", held, len(want), len(all)+1)
}

// A namespace with all its objects and volumes is lost; its backups are in the bucket.
func TestTotalLoss(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 25*time.Minute)
	const rows, nodes = 3_000, 2
	step := stepper(t)
	c, err := e.Cassandra(ctx, "lost", Setup{Replicas: nodes})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", nodes, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	identities, err := c.identities(ctx, nodes)
	step("identified", err)
	out, err := e.Stategraft(ctx, "backup", "-n", c.Namespace, "statefulset/"+c.Name(), "--name", "nightly", "--wait")
	t.Log(out)
	step("backed up", err)
	step("lost", e.Forget(ctx))
	_, err = e.Kubectl(ctx, nil, "wait", "--for=delete", "namespace/"+c.Namespace, "--timeout=600s")
	step("gone", err)

	// The second of the three commands; the first is the chart's.
	asked := time.Now()
	c, err = e.Cassandra(ctx, "lost", Setup{Replicas: nodes})
	step("applied", err)
	out, err = e.Stategraft(ctx, "restore", "-n", c.Namespace, "-l", "app="+c.Name(), "--backup", "latest", "--yes", "--wait")
	t.Log(out)
	step("restored", err)
	step("ready", c.AllReady(ctx, 5*time.Minute))
	took := time.Since(asked)
	if after, err := c.Read(ctx, "e2e"); err != nil || after != before {
		t.Errorf("there are %+v, want %+v (%v)", after, before, err)
	}
	now, err := c.identities(ctx, nodes)
	step("identified", err)
	if !slices.Equal(now, identities) {
		t.Errorf("the nodes were\n%s\nand are\n%s", strings.Join(identities, "\n"), strings.Join(now, "\n"))
	}
	out, err = e.Stategraft(ctx, "sync", "-n", c.Namespace)
	t.Log(out)
	step("synced", err)
	list, err := c.Backups(ctx)
	step("listed", err)
	if len(list) != 1 || list[0].Name != "nightly" || list[0].Status.Phase != api.BackupComplete || list[0].Status.Origin != api.BackupFound ||
		len(list[0].Status.Pods) != nodes || list[0].Status.Pods[0].Datacenter == "" || list[0].Status.Pods[0].Objects == 0 {
		t.Errorf("the catalogue has %+v", list)
	}
	figure(t, "%d rows, ids and tokens back from the bucket, %s after the manifest was applied; the catalogue has the backup under its name, with its topology", before.Count, took.Round(time.Second))
}

// The newest backup is restored on trial, and one that was damaged in the bucket is
// told. The database notices nothing.
func TestVerification(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 25*time.Minute)
	const rows = 3_000
	step := stepper(t)
	c, err := e.Cassandra(ctx, "verified", Setup{OwnS3: true})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", 1, 0, rows))
	serving := c.Serve(ctx)
	step("schedule made", c.AskSchedule(ctx, "every", api.BackupScheduleSpec{
		Schedule: "* * * * *", Verify: &api.BackupVerify{Schedule: "* * * * *"},
	}))
	s, err := c.AwaitSchedule(ctx, "every", 6*time.Minute, "verified", func(s *api.BackupSchedule) bool { return s.Status.LastVerified != nil })
	step("verified", err)
	b, err := c.BackupUntil(ctx, s.Status.LastVerified.Backup, time.Minute, "verified", func(b *api.Backup) bool { return b.Status.Verified != nil })
	step("read", err)
	if v := b.Status.Verified; v.Result != api.VerificationPassed || v.Rows < rows || len(v.Differences) > 0 || v.SSTables == 0 {
		t.Errorf("verified: %+v", v)
	}
	passed := *b.Status.Verified
	t.Logf("passed: %+v", passed)

	// One more, alone, is damaged before it is looked at.
	step("no further run", c.PatchSchedule(ctx, "every", `{"spec":{"schedule":"0 0 29 2 *","verify":{"schedule":"0 0 29 2 *"}}}`))
	_, err = c.AwaitSchedule(ctx, "every", 6*time.Minute, "quiet", func(s *api.BackupSchedule) bool { return s.Status.Active == "" && s.Status.Pending == "" })
	step("quiet", err)
	step("damaged", damage(ctx, c))
	step("verified again", c.PatchSchedule(ctx, "every", `{"spec":{"verify":{"schedule":"* * * * *"}}}`))
	failed := time.Now()
	var bad *api.Backup
	for limit := time.Now().Add(6 * time.Minute); bad == nil && time.Now().Before(limit); time.Sleep(time.Second) {
		list, err := c.Backups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if v := list[i].Status.Verified; v != nil && v.Result == api.VerificationFailed {
				bad = &list[i]
			}
		}
	}
	served, err := serving()
	step("served", err)
	if bad == nil {
		list, _ := c.Backups(ctx)
		t.Fatalf("damage in the bucket was not found: %+v", list)
	}
	t.Logf("failed after %s: %+v", time.Since(failed).Round(time.Second), bad.Status.Verified)
	if !strings.Contains(bad.Status.Verified.Message, "e2e.rows") {
		t.Errorf("it does not name the table: %s", bad.Status.Verified.Message)
	}
	pods, err := e.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelVerify})
	step("listed", err)
	if len(pods.Items) > 1 {
		t.Errorf("%d pods of verifications are left", len(pods.Items))
	}
	figure(t, "%d rows of %d SSTables read and as at the backup; a flipped byte is named; the database answered %d queries meanwhile, all of them", passed.Rows, passed.SSTables, served.Queries)
}

// damage flips a byte of the rows in each backup of the bucket.
func damage(ctx context.Context, c *Cassandra) error {
	pods, err := c.e.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=s3"})
	if err != nil || len(pods.Items) != 1 {
		return errors.Join(fmt.Errorf("finding the S3 server: %d pods", len(pods.Items)), err)
	}
	_, err = c.e.Exec(ctx, c.Namespace, pods.Items[0].Name, "s3", "", "sh", "-c",
		`found=$(find /data -path '*/e2e/rows-*' -name '*-Data.db') && [ -n "$found" ] && for f in $found; do printf '\377\377\377' | dd of="$f" bs=1 seek=40 conv=notrunc; done`)
	return err
}
