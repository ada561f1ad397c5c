package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// stream is what go test -json prints for a package with a passing, a failing and a skipped test.
const stream = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    p_test.go:9: broken\n"}
{"Action":"output","Package":"p","Test":"TestBad/sub","Output":"    p_test.go:8: deeper\n"}
{"Action":"fail","Package":"p","Test":"TestBad/sub"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestNone","Output":"=== RUN   TestNone\n"}
{"Action":"output","Package":"p","Test":"TestNone","Output":"    p_test.go:12: no Docker engine\n"}
{"Action":"output","Package":"p","Test":"TestNone","Output":"--- SKIP: TestNone (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestNone"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`

func TestReportShowsWhatFailed(t *testing.T) {
	var out strings.Builder
	got, err := report(&out, strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	if want := (counts{passed: 1, failed: 1, skipped: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	for _, want := range []string{"broken", "deeper", "skipped p TestNone: no Docker engine\n", "FAIL\tp\t0.1s\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "chatter") {
		t.Errorf("a passing test talks:\n%s", out.String())
	}
}

func TestReportOfBrokenStreamIsAnError(t *testing.T) {
	var out strings.Builder
	if _, err := report(&out, strings.NewReader(`{"Action":"start"}`+"\npanic: no JSON\n")); err == nil {
		t.Error("no error")
	}
}

func TestDifferencesNamesEachDependency(t *testing.T) {
	want := map[string]string{"a": "v1", "b": "v1", "c": "v1"}
	got := differences(want, map[string]string{"a": "v1", "b": "v2", "d": "v1"})
	if !slices.Equal(got, []string{
		"go.mod has b v2, decided is v1",
		"go.mod lacks c v1",
		"go.mod has d v1, which was not decided",
	}) {
		t.Errorf("got %q", got)
	}
}

func TestStrangersNamesWhatABackendBuildsOfAnother(t *testing.T) {
	built := []string{"context", "go.etcd.io/etcd/client/v3", "github.com/rulewire/rulewire/etcd", "github.com/rulewire/rulewire/datasource"}
	if got := strangers("etcd", built); len(got) > 0 {
		t.Errorf("etcd alone: %q", got)
	}
	if got := strangers("etcd", append(built, "github.com/redis/go-redis/v9/internal", "github.com/rulewire/rulewire/consul")); !slices.Equal(got, []string{
		"module etcd builds with github.com/rulewire/rulewire/consul, which is of consul",
		"module etcd builds with github.com/redis/go-redis/v9/internal, which is of redis",
	}) {
		t.Errorf("with two others: %q", got)
	}
	if got := strangers(".", built); len(got) != 2 {
		t.Errorf("the root module: %q", got)
	}
}

func TestChooseKnowsItsSteps(t *testing.T) {
	all, err := choose(nil)
	if err != nil || len(all) != len(steps) {
		t.Errorf("all: %d steps, %v", len(all), err)
	}
	two, err := choose([]string{"vet", "deps"})
	if err != nil || len(two) != 2 || two[0].name != "vet" {
		t.Errorf("two: %v, %v", two, err)
	}
	if _, err := choose([]string{"nosuch"}); err == nil {
		t.Error("an unknown step was accepted")
	}
}

func TestDocFaultsNamesDeadLinksAndUnlistedPages(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := docFaults(fstest.MapFS{
		"README.md":        page("[docs](docs/README.md#top) [site](https://example.com) [gone](docs/gone.md) `[code](x)`"),
		"docs/README.md":   page("[a](a.md) [up](../README.md)"),
		"docs/a.md":        page("```\n[fenced](nothing)\n```\n[here](#here)"),
		"docs/unlisted.md": page(""),
		".git/x.md":        page("[gone](gone)"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"README.md: no docs/gone.md", "docs/README.md: does not list docs/unlisted.md"}) {
		t.Errorf("got %q", got)
	}
}
