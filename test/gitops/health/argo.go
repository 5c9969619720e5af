// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const healthKey = "resource.customizations.health."

// ArgoCD returns Argo CD's checks by kind.
func (p Page) ArgoCD() (map[string]Check, error) {
	config := corev1.ConfigMap{}
	if err := p.decode("### Argo CD", &config); err != nil {
		return nil, err
	}
	checks := map[string]Check{}
	for key, script := range config.Data {
		resource, isCheck := strings.CutPrefix(key, healthKey)
		group, kind, named := strings.Cut(resource, "_")
		if !isCheck || !named {
			return nil, fmt.Errorf("%s is not the key of a health check", key)
		}
		checks[kind] = func(o *unstructured.Unstructured) (State, error) {
			if o.GroupVersionKind().Group != group {
				return Unknown, fmt.Errorf("the check is for %s, the object is %s", group, o.GetAPIVersion())
			}
			if o.GetDeletionTimestamp() != nil {
				return InProgress, nil
			}
			return runLua(script, o)
		}
	}
	return checks, nil
}

// runLua runs a check with the Lua libraries that Argo CD opens.
func runLua(script string, o *unstructured.Unstructured) (State, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return Unknown, err
		}
	}
	l.SetGlobal("obj", toLua(l, o.Object))
	if err := l.DoString(script); err != nil {
		return Unknown, err
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		return Unknown, fmt.Errorf("the check returned no table: %s", l.Get(-1))
	}
	if _, ok := result.RawGetString("message").(lua.LString); !ok {
		return Unknown, fmt.Errorf("the check returned no message")
	}
	switch status := result.RawGetString("status").String(); status {
	case "Progressing":
		return InProgress, nil
	case "Healthy":
		return Current, nil
	case "Degraded":
		return Failed, nil
	default:
		return Unknown, fmt.Errorf("the check returned status %q", status)
	}
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, toLua(l, item))
		}
		return table
	}
	return lua.LNil
}
