package rulewire.interop;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;

import com.alibaba.csp.sentinel.datasource.Converter;
import com.alibaba.csp.sentinel.property.DynamicSentinelProperty;
import com.alibaba.csp.sentinel.property.SentinelProperty;
import com.alibaba.csp.sentinel.slots.block.authority.AuthorityRule;
import com.alibaba.csp.sentinel.slots.block.authority.AuthorityRuleManager;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleManager;
import com.alibaba.csp.sentinel.slots.system.SystemRule;
import com.alibaba.csp.sentinel.slots.system.SystemRuleManager;
import com.alibaba.fastjson.JSON;

/** A kind of rule: how its documents are read, and the rule manager that they end in. */
final class Kind<R> {
    private final Class<R> type;
    private final Consumer<SentinelProperty<List<R>>> register;
    private final Supplier<List<R>> inForce;

    private Kind(Class<R> type, Consumer<SentinelProperty<List<R>>> register, Supplier<List<R>> inForce) {
        this.type = type;
        this.register = register;
        this.inForce = inForce;
    }

    static Kind<?> of(String name) {
        switch (name) {
            case "flow":
                return new Kind<>(FlowRule.class, FlowRuleManager::register2Property, FlowRuleManager::getRules);
            case "degrade":
                return new Kind<>(DegradeRule.class, DegradeRuleManager::register2Property, DegradeRuleManager::getRules);
            case "system":
                return new Kind<>(SystemRule.class, SystemRuleManager::register2Property, SystemRuleManager::getRules);
            case "authority":
                return new Kind<>(AuthorityRule.class, AuthorityRuleManager::register2Property, AuthorityRuleManager::getRules);
            case "param-flow":
                return new Kind<>(ParamFlowRule.class, ParamFlowRuleManager::register2Property, ParamFlowRuleManager::getRules);
            default:
                throw new IllegalArgumentException("kind " + name);
        }
    }

    List<R> parse(String text) { return JSON.parseArray(text, type); }

    Converter<String, List<R>> parser() { return this::parse; }

    /** Puts the property behind the rule manager and gives what the manager then has in force. */
    List<R> enforce(SentinelProperty<List<R>> property) {
        register.accept(property);
        return inForce.get();
    }

    /** Takes the property away from the rule manager again and empties it. */
    void forget() {
        SentinelProperty<List<R>> none = new DynamicSentinelProperty<>();
        register.accept(none);
        none.updateValue(java.util.Collections.emptyList());
    }
}
