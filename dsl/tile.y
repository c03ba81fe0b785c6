/* tile.y - tokens to tree.  Pure: all state is in the Parser. */
%require "3.8"
%define api.pure full
%define api.prefix {tile_parse_}
%define api.token.prefix {TILE_PARSE_}
%define api.location.type {Span}
%define parse.error custom
%define lr.type canonical-lr
%define lr.default-reduction accepting
%expect 0
%locations
%defines
%lex-param {Parser *parser} {void *scanner}
%parse-param {Parser *parser} {void *scanner}

%code requires {
#include "dsl/parser.h"
}

%code {
#include <stdlib.h>
#include <string.h>
#include "dsl/hints.h"

/* A fixed stack: no malloc, and nesting without end is one clean error. */
#define YYINITDEPTH 2000
#define YYMAXDEPTH 2000
#define YYLLOC_DEFAULT(current, rhs, n)                                                            \
    ((current) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))                               \
                     : (Span){YYRHSLOC(rhs, 0).hi, YYRHSLOC(rhs, 0).hi})

int tile_lex_lex(TILE_PARSE_STYPE *value, Span *place, void *scanner);

static int
tile_parse_lex(TILE_PARSE_STYPE *value, Span *place, Parser *parser, void *scanner)
{
    int token = tile_lex_lex(value, place, scanner);

    parser_take(parser, token, *place);
    return token;
}

static void tile_parse_error(const Span *place, Parser *parser, void *scanner,
                             const char *message);

static void
add_item(Parser *parser, Item item)
{
    vec_push(parser->arena, &parser->module->items, item);
}
}

%union {
    Word word;
    int64_t integer;
    Op op;
    Expr *expr;
    Stmt *stmt;
    Block *block;
    Arg arg;
    ArgList args;
    Subscript subscript;
    SubscriptList subscripts;
    Attribute attribute;
    AttributeList attributes;
    NameList names;
    GridAxis axis;
    GridAxisList axes;
    ConstParam constant;
    ConstParamList constants;
    Param param;
    ParamList params;
    ParamMode mode;
    TypeRef *type;
}

%token EOF 0 "the end of the file"
%token USE "'use'" KERNEL "'kernel'" FN "'fn'" LET "'let'" VAR "'var'" FOR "'for'" IN "'in'"
%token OUT "'out'" INOUT "'inout'" IF "'if'" ELSE "'else'" RETURN "'return'"
%token REQUIRE "'require'" GRID "'grid'" LOAD "'load'" STORE "'store'"
%token PRINT "'print'" ASSERT "'assert'"
%token ATOMIC_ADD "'atomic_add'" ATOMIC_MAX "'atomic_max'" ATOMIC_MIN "'atomic_min'" ZEROS "'zeros'" FULL "'full'" AS "'as'" TRUE "'true'"
%token FALSE "'false'" NONE "'None'" AUTO "'auto'"
%token DOTS "'..'" ARROW "'->'" OR "'||'" AND "'&&'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='"
%token SHL "'<<'" SHR "'>>'" ADD_TO "'+='" SUB_TO "'-='" MUL_TO "'*='" DIV_TO "'/='"
%token <word> NAME "a name" STRING "a string" FLOATING "a number"
%token <integer> INTEGER "an integer"

%type <expr> expr any_expr sum postfix primary type_name opt_while opt_align
%type <op> assign_op
%type <arg> argument tuple_element
%type <args> arguments argument_list tuple_list setting_list expr_list
%type <subscript> subscript
%type <subscripts> subscripts extents subscript_list extent_list
%type <attribute> attribute
%type <attributes> attributes
%type <names> name_list pattern_list
%type <stmt> statement pattern atomic
%type <block> block statements opt_else
%type <axis> axis
%type <axes> axis_list
%type <constant> constant
%type <constants> constants constant_list
%type <param> param fn_param
%type <params> params param_list fn_params fn_param_list
%type <mode> mode
%type <type> type_ref tensor_type
%type <word> opt_message

/* in the order in which messages list them */
%token ';' '(' ')' '}' ',' '@' '=' '<' '>' ':' '[' ']' '{' '|' '^' '&' '+' '-' '*' '/' '%' '!' '.'

/* operators, the loosest first */
%left OR
%left AND
%nonassoc EQ NE '<' LE '>' GE
%left '|'
%left '^'
%left '&'
%left SHL SHR
%left '+' '-'
%left '*' '/' '%'
%precedence AS
%precedence '!'

%%

/* Lists that may be empty are not built from an empty one: where an element begins wrongly, the
 * parser must be in a state that can recover. */
program
    : %empty
    | items
    ;

items
    : item
    | items item
    ;

item
    : USE name_list ';'
        { add_item(parser, (Item){.kind = ITEM_USE, .uses = $2}); }
    | attributes KERNEL NAME constants '(' params ')' block
        {
            Kernel *kernel = arena_new(parser->arena, Kernel);
            *kernel = (Kernel){.name = $3, .span = span_join(@2, @7), .attributes = $1,
                               .constants = $4, .params = $6, .body = $8};
            add_item(parser, (Item){.kind = ITEM_KERNEL, .kernel = kernel});
        }
    | FN NAME '(' fn_params ')' block
        {
            Function *function = arena_new(parser->arena, Function);
            *function = (Function){.name = $2, .span = span_join(@1, @5), .params = $4,
                                   .body = $6};
            add_item(parser, (Item){.kind = ITEM_FUNCTION, .function = function});
        }
    | error block
        { yyerrok; }
    | error '}'
    | error ';'
    ;

name_list
    : NAME
        { $$ = (NameList){0}; vec_push(parser->arena, &$$, $1); }
    | name_list ',' NAME
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

attributes
    : %empty
        { $$ = (AttributeList){0}; }
    | attributes attribute
        { $$ = $1; vec_push(parser->arena, &$$, $2); }
    ;

attribute
    : '@' NAME
        { $$ = (Attribute){.name = $2.text, .span = @$}; }
    | '@' NAME '(' expr ')'
        { $$ = (Attribute){.name = $2.text, .span = @$, .value = $4}; }
    | '@' NAME '(' setting_list ')'
        { $$ = (Attribute){.name = $2.text, .span = @$, .settings = $4}; }
    | '@' NAME '(' setting_list ',' ')'
        { $$ = (Attribute){.name = $2.text, .span = @$, .settings = $4}; }
    ;

setting_list
    : NAME '=' expr
        {
            $$ = (ArgList){0};
            vec_push(parser->arena, &$$, ((Arg){$1.text, @1, $3}));
        }
    | setting_list ',' NAME '=' expr
        { $$ = $1; vec_push(parser->arena, &$$, ((Arg){$3.text, @3, $5})); }
    ;

/* ---- kernels and functions ---- */

constants
    : %empty
        { $$ = (ConstParamList){0}; }
    | '<' constant_list '>'
        { $$ = $2; }
    | '<' constant_list ',' '>'
        { $$ = $2; }
    ;

constant_list
    : constant
        { $$ = (ConstParamList){0}; vec_push(parser->arena, &$$, $1); }
    | constant_list ',' constant
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

constant
    : NAME ':' NAME
        { $$ = (ConstParam){.name = $1, .kind = parse_const_kind(parser, $3)}; }
    | NAME ':' NAME '=' AUTO
        { $$ = (ConstParam){.name = $1, .kind = parse_const_kind(parser, $3), .is_auto = true}; }
    | NAME ':' NAME '=' sum
        { $$ = (ConstParam){.name = $1, .kind = parse_const_kind(parser, $3), .value = $5}; }
    ;

params
    : %empty
        { $$ = (ParamList){0}; }
    | param_list
    | param_list ','
    ;

param_list
    : param
        { $$ = (ParamList){0}; vec_push(parser->arena, &$$, $1); }
    | param_list ',' param
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

param
    : NAME ':' mode tensor_type opt_align
        { $$ = (Param){$1, $3, $4, $5, @$}; }
    | NAME ':' NAME
        {
            TypeRef *type = arena_new(parser->arena, TypeRef);
            *type = (TypeRef){.span = @3, .base = $3};
            $$ = (Param){$1, PARAM_VALUE, type, NULL, @$};
        }
    ;

mode
    : IN
        { $$ = PARAM_IN; }
    | OUT
        { $$ = PARAM_OUT; }
    | INOUT
        { $$ = PARAM_INOUT; }
    ;

tensor_type
    : NAME '[' extents ']'
        {
            $$ = arena_new(parser->arena, TypeRef);
            *$$ = (TypeRef){.span = @$, .base = $1, .has_dims = true, .dims = $3};
        }
    ;

opt_align
    : %empty
        { $$ = NULL; }
    | NAME '(' expr ')'
        {
            if (strcmp($1.text, "align") != 0)
                diag_error(parser->diag, $1.span,
                           "E-ALIGN: only align(n) may follow the type of a tensor, not '%s'", $1.text);
            $$ = $3;
        }
    ;

fn_params
    : %empty
        { $$ = (ParamList){0}; }
    | fn_param_list
    | fn_param_list ','
    ;

fn_param_list
    : fn_param
        { $$ = (ParamList){0}; vec_push(parser->arena, &$$, $1); }
    | fn_param_list ',' fn_param
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

fn_param
    : NAME
        { $$ = (Param){$1, PARAM_VALUE, NULL, NULL, @$}; }
    | NAME ':' type_ref
        { $$ = (Param){$1, PARAM_VALUE, $3, NULL, @$}; }
    | VAR NAME
        { $$ = (Param){$2, PARAM_VAR, NULL, NULL, @$}; }
    | VAR NAME ':' type_ref
        { $$ = (Param){$2, PARAM_VAR, $4, NULL, @$}; }
    ;

type_ref
    : NAME
        {
            $$ = arena_new(parser->arena, TypeRef);
            *$$ = (TypeRef){.span = @$, .base = $1};
        }
    | tensor_type
    ;

extents
    : extent_list
    | extent_list ','
    ;

extent_list
    : expr
        {
            $$ = (SubscriptList){0};
            vec_push(parser->arena, &$$, ((Subscript){SUBSCRIPT_EXPR, @1, $1}));
        }
    | extent_list ',' expr
        {
            $$ = $1;
            vec_push(parser->arena, &$$, ((Subscript){SUBSCRIPT_EXPR, @3, $3}));
        }
    ;

/* ---- statements ---- */

block
    : '{' '}'
        { $$ = arena_new(parser->arena, Block); $$->span = @$; }
    | '{' error '}'
        { $$ = arena_new(parser->arena, Block); $$->span = @$; }
    | '{' statements '}'
        { $$ = $2; $$->span = @$; }
    | '{' statements error '}'
        { $$ = $2; $$->span = @$; }
    ;

statements
    : statement
        {
            $$ = arena_new(parser->arena, Block);
            if ($1 != NULL)
                vec_push(parser->arena, &$$->stmts, $1);
        }
    | statements statement
        {
            $$ = $1;
            if ($2 != NULL)
                vec_push(parser->arena, &$$->stmts, $2);
        }
    ;

statement
    : REQUIRE expr opt_message ';'
        {
            $$ = stmt_new(parser, STMT_REQUIRE, @$);
            $$->a = $2;
            $$->text = $3.text;
        }
    | GRID axis_list ';'
        {
            $$ = stmt_new(parser, STMT_GRID, @$);
            $$->axes = $2;
        }
    | LET pattern '=' expr ';'
        {
            $$ = $2;
            $$->span = @$;
            $$->a = $4;
        }
    | VAR pattern '=' expr ';'
        {
            $$ = $2;
            $$->kind = STMT_VAR;
            $$->span = @$;
            $$->a = $4;
        }
    | expr assign_op expr ';'
        {
            $$ = stmt_new(parser, STMT_ASSIGN, @$);
            $$->op = $2;
            $$->b = $1;
            $$->a = $3;
        }
    | STORE NAME '[' subscripts ']' '=' expr ';'
        { $$ = stmt_write(parser, STMT_STORE, @$, $2, $4, $7); }
    | atomic ';'
        { $$ = stmt_named($1, NULL, @$); }
    | LET pattern '=' atomic ';'
        { $$ = stmt_named($4, $2, @$); }
    | expr ';'
        {
            $$ = stmt_new(parser, STMT_EXPR, @$);
            $$->a = $1;
        }
    | attributes FOR NAME IN any_expr opt_while block
        {
            $$ = stmt_new(parser, STMT_FOR, span_join(@2, @5));
            $$->attributes = $1;
            vec_push(parser->arena, &$$->names, $3);
            $$->a = $5, $$->b = $6, $$->body = $7;
        }
    | attributes IF expr block opt_else
        {
            $$ = stmt_new(parser, STMT_IF, span_join(@2, @3));
            $$->attributes = $1;
            $$->a = $3;
            $$->body = $4;
            $$->otherwise = $5;
        }
    | RETURN ';'
        { $$ = stmt_new(parser, STMT_RETURN, @$); }
    | RETURN expr ';'
        {
            $$ = stmt_new(parser, STMT_RETURN, @$);
            $$->a = $2;
        }
    | PRINT '(' STRING ')' ';'
        { $$ = stmt_print(parser, @$, $3.text, (ArgList){0}); }
    | PRINT '(' STRING ',' expr_list ')' ';'
        { $$ = stmt_print(parser, @$, $3.text, $5); }
    | PRINT '(' expr_list ')' ';'
        { $$ = stmt_print(parser, @$, NULL, $3); }
    | ASSERT '(' expr opt_message ')' ';'
        { $$ = stmt_assert(parser, @$, $3, $4.text); }
    | block
        {
            $$ = stmt_new(parser, STMT_BLOCK, @$);
            $$->body = $1;
        }
    | error ';'
        { $$ = NULL; yyerrok; }
    | error block
        { $$ = NULL; yyerrok; }
    ;

opt_while : %empty { $$ = NULL; } | NAME expr { $$ = while_condition(parser, $1, $2); } ;

expr_list
    : expr
        { $$ = (ArgList){0}; vec_push(parser->arena, &$$, ((Arg){NULL, {0, 0}, $1})); }
    | expr_list ',' expr
        { $$ = $1; vec_push(parser->arena, &$$, ((Arg){NULL, {0, 0}, $3})); }
    ;

opt_message
    : %empty
        { $$ = (Word){0}; }
    | ',' STRING
        { $$ = $2; }
    ;

opt_else
    : %empty
        { $$ = NULL; }
    | ELSE block
        { $$ = $2; }
    | ELSE IF expr block opt_else
        {
            Stmt *stmt = stmt_new(parser, STMT_IF, span_join(@2, @3));
            stmt->a = $3;
            stmt->body = $4;
            stmt->otherwise = $5;
            $$ = arena_new(parser->arena, Block);
            $$->span = stmt->span;
            vec_push(parser->arena, &$$->stmts, stmt);
        }
    ;

axis_list
    : axis
        { $$ = (GridAxisList){0}; vec_push(parser->arena, &$$, $1); }
    | axis_list ',' axis
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

axis
    : NAME IN any_expr
        { $$ = (GridAxis){$1, $3}; }
    ;

atomic
    : ATOMIC_ADD NAME '[' subscripts ']' ADD_TO expr
        { $$ = stmt_atomic(parser, ATOMIC_ADD, @$, $2, $4, $7); }
    | ATOMIC_MAX NAME '[' subscripts ']' '=' expr
        { $$ = stmt_atomic(parser, ATOMIC_MAX, @$, $2, $4, $7); }
    | ATOMIC_MIN NAME '[' subscripts ']' '=' expr
        { $$ = stmt_atomic(parser, ATOMIC_MIN, @$, $2, $4, $7); }
    ;

pattern
    : NAME
        {
            $$ = stmt_new(parser, STMT_LET, @$);
            vec_push(parser->arena, &$$->names, $1);
        }
    | '(' pattern_list ')'
        {
            $$ = stmt_new(parser, STMT_LET, @$);
            $$->names = $2;
            $$->tuple = true;
        }
    ;

pattern_list
    : name_list ',' NAME
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

assign_op
    : '='    { $$ = OP_NONE; }
    | ADD_TO { $$ = OP_ADD; }
    | SUB_TO { $$ = OP_SUB; }
    | MUL_TO { $$ = OP_MUL; }
    | DIV_TO { $$ = OP_DIV; }
    ;

/* ---- expressions ---- */

any_expr
    : expr
    | expr DOTS expr
        {
            $$ = expr_new(parser, EXPR_SPAN, @$);
            $$->a = $1;
            $$->b = $3;
        }
    ;

expr
    : sum
    | expr OR expr   { $$ = expr_binary(parser, OP_OR, $1, $3); }
    | expr AND expr  { $$ = expr_binary(parser, OP_AND, $1, $3); }
    | expr EQ expr   { $$ = expr_binary(parser, OP_EQ, $1, $3); }
    | expr NE expr   { $$ = expr_binary(parser, OP_NE, $1, $3); }
    | expr '<' expr  { $$ = expr_binary(parser, OP_LT, $1, $3); }
    | expr LE expr   { $$ = expr_binary(parser, OP_LE, $1, $3); }
    | expr '>' expr  { $$ = expr_binary(parser, OP_GT, $1, $3); }
    | expr GE expr   { $$ = expr_binary(parser, OP_GE, $1, $3); }
    | expr '|' expr  { $$ = expr_binary(parser, OP_BIT_OR, $1, $3); }
    | expr '^' expr  { $$ = expr_binary(parser, OP_BIT_XOR, $1, $3); }
    | expr '&' expr  { $$ = expr_binary(parser, OP_BIT_AND, $1, $3); }
    | expr SHL expr  { $$ = expr_binary(parser, OP_SHL, $1, $3); }
    | expr SHR expr  { $$ = expr_binary(parser, OP_SHR, $1, $3); }
    ;

/* What a '>' ends, as in a kernel's constants. */
sum
    : postfix
    | sum '+' sum    { $$ = expr_binary(parser, OP_ADD, $1, $3); }
    | sum '-' sum    { $$ = expr_binary(parser, OP_SUB, $1, $3); }
    | sum '*' sum    { $$ = expr_binary(parser, OP_MUL, $1, $3); }
    | sum '/' sum    { $$ = expr_binary(parser, OP_DIV, $1, $3); }
    | sum '%' sum    { $$ = expr_binary(parser, OP_REM, $1, $3); }
    | sum AS type_name
        {
            $$ = expr_over(parser, EXPR_CAST, @$, $1);
            $$->b = $3;
        }
    | '-' sum %prec '!'
        { $$ = expr_negate(parser, @$, $2); }
    | '!' sum
        {
            $$ = expr_new(parser, EXPR_UNARY, @$);
            $$->op = OP_NOT;
            $$->a = $2;
        }
    ;

postfix
    : primary
    | postfix '.' NAME
        {
            $$ = expr_over(parser, EXPR_FIELD, @$, $1);
            $$->text = $3.text;
            $$->text_span = @3;
        }
    | postfix '.' INTEGER
        {
            $$ = expr_over(parser, EXPR_FIELD, @$, $1);
            $$->text = arena_printf(parser->arena, "%lld", (long long)$3);
            $$->text_span = @3;
        }
    | postfix '[' subscripts ']'
        {
            $$ = expr_over(parser, EXPR_SUBSCRIPT, @$, $1);
            $$->index = $3;
        }
    ;

primary
    : INTEGER { $$ = expr_integer(parser, @$, $1); }
    | FLOATING
        {
            $$ = expr_new(parser, EXPR_FLOAT, @$);
            $$->number = strtod($1.text, NULL);
            $$->text = $1.text;
        }
    | TRUE
        {
            $$ = expr_new(parser, EXPR_BOOL, @$);
            $$->integer = 1;
        }
    | FALSE
        { $$ = expr_new(parser, EXPR_BOOL, @$); }
    | NAME
        {
            $$ = expr_new(parser, EXPR_NAME, @$);
            $$->text = $1.text;
        }
    | NAME '(' arguments ')'
        {
            $$ = expr_new(parser, EXPR_CALL, @$);
            $$->text = $1.text;
            $$->text_span = @1;
            $$->args = $3;
        }
    | LOAD NAME '[' subscripts ']'
        {
            $$ = expr_new(parser, EXPR_LOAD, @$);
            $$->text = $2.text;
            $$->text_span = @2;
            $$->index = $4;
        }
    | ZEROS '<' type_name '>' '[' extents ']'
        {
            $$ = expr_new(parser, EXPR_ZEROS, @$);
            $$->a = $3;
            $$->index = $6;
        }
    | FULL '<' type_name '>' '[' extents ']' '(' expr ')'
        {
            $$ = expr_new(parser, EXPR_FULL, @$);
            $$->a = $3;
            $$->index = $6;
            $$->b = $9;
        }
    | '(' expr ')'
        {
            $$ = $2;
            $$->span = @$;
        }
    | '(' tuple_list ')'
        {
            $$ = expr_new(parser, EXPR_TUPLE, @$);
            $$->args = $2;
        }
    | '(' tuple_list ',' ')'
        {
            $$ = expr_new(parser, EXPR_TUPLE, @$);
            $$->args = $2;
        }
    ;

type_name
    : NAME
        {
            $$ = expr_new(parser, EXPR_NAME, @$);
            $$->text = $1.text;
        }
    ;

/* A tuple has a comma, or a name: (a, b), (max = a). */
tuple_list
    : expr ',' tuple_element
        {
            $$ = (ArgList){0};
            vec_push(parser->arena, &$$, ((Arg){NULL, {0, 0}, $1}));
            vec_push(parser->arena, &$$, $3);
        }
    | NAME '=' expr
        {
            $$ = (ArgList){0};
            vec_push(parser->arena, &$$, ((Arg){$1.text, @1, $3}));
        }
    | tuple_list ',' tuple_element
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

tuple_element
    : expr
        { $$ = (Arg){NULL, {0, 0}, $1}; }
    | NAME '=' expr
        { $$ = (Arg){$1.text, @1, $3}; }
    ;

arguments
    : %empty
        { $$ = (ArgList){0}; }
    | argument_list
    | argument_list ','
    ;

argument_list
    : argument
        { $$ = (ArgList){0}; vec_push(parser->arena, &$$, $1); }
    | argument_list ',' argument
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

argument
    : any_expr
        { $$ = (Arg){NULL, {0, 0}, $1}; }
    | NAME '=' expr
        { $$ = (Arg){$1.text, @1, $3}; }
    ;

subscripts
    : subscript_list
    | subscript_list ','
    ;

subscript_list
    : subscript
        { $$ = (SubscriptList){0}; vec_push(parser->arena, &$$, $1); }
    | subscript_list ',' subscript
        { $$ = $1; vec_push(parser->arena, &$$, $3); }
    ;

subscript
    : ':'
        { $$ = (Subscript){SUBSCRIPT_ALL, @1, NULL}; }
    | NONE
        { $$ = (Subscript){SUBSCRIPT_NONE, @1, NULL}; }
    | any_expr
        { $$ = (Subscript){SUBSCRIPT_EXPR, @1, $1}; }
    ;

%%

/* ---- messages ---- */

enum { SHOWN_MAX = 6 };

/* The tokens the parser could take at an error, as a set. */
typedef struct Expected {
    bool has[YYNTOKENS];
} Expected;

static bool
has_all(const Expected *expected, const yysymbol_kind_t *tokens, int n)
{
    for (int i = 0; i < n; i++)
        if (!expected->has[tokens[i]])
            return false;
    return true;
}

static void
remove_all(Expected *expected, const yysymbol_kind_t *tokens, int n)
{
    for (int i = 0; i < n; i++)
        expected->has[tokens[i]] = false;
}

static void
remove_characters(Expected *expected, const char *characters)
{
    for (; *characters != '\0'; characters++)
        expected->has[YYTRANSLATE((unsigned char)*characters)] = false;
}

/* Replaces the tokens that begin a statement, begin an expression or continue one by a word each,
 * in `groups`; returns how many words. */
static int
group_expected(Expected *expected, const char **groups)
{
    static const yysymbol_kind_t statement[] = {
        YYSYMBOL_LET, YYSYMBOL_VAR, YYSYMBOL_FOR, YYSYMBOL_IF, YYSYMBOL_RETURN, YYSYMBOL_REQUIRE,
        YYSYMBOL_GRID, YYSYMBOL_STORE, YYSYMBOL_ATOMIC_ADD, YYSYMBOL_ATOMIC_MAX, YYSYMBOL_ATOMIC_MIN,
        YYSYMBOL_PRINT, YYSYMBOL_ASSERT};
    static const yysymbol_kind_t expression[] = {
        YYSYMBOL_INTEGER, YYSYMBOL_FLOATING, YYSYMBOL_NAME, YYSYMBOL_TRUE, YYSYMBOL_FALSE,
        YYSYMBOL_LOAD, YYSYMBOL_ZEROS, YYSYMBOL_FULL};
    static const yysymbol_kind_t operator[] = {
        YYSYMBOL_OR, YYSYMBOL_AND, YYSYMBOL_EQ, YYSYMBOL_NE, YYSYMBOL_LE, YYSYMBOL_GE,
        YYSYMBOL_SHL, YYSYMBOL_SHR, YYSYMBOL_AS, YYSYMBOL_DOTS};
    static const yysymbol_kind_t assignment[] = {YYSYMBOL_ADD_TO, YYSYMBOL_SUB_TO, YYSYMBOL_MUL_TO, YYSYMBOL_DIV_TO};
    int n = 0;

    if (has_all(expected, statement, 13)) {
        groups[n++] = "a statement";
        remove_all(expected, statement, 13);
        remove_all(expected, expression, 8);
        remove_characters(expected, "(-!{@");
    } else if (has_all(expected, expression, 8)) {
        groups[n++] = "an expression";
        remove_all(expected, expression, 8);
        remove_all(expected, &statement[8], 3); /* what a `let` may have besides */
        remove_characters(expected, "(-!");
    } else if (expected->has[YYTRANSLATE('*')] || expected->has[YYSYMBOL_OR]) {
        remove_all(expected, operator, 10);
        remove_characters(expected, "([.+-*/%<>&|^");
        if (has_all(expected, assignment, 4)) {
            groups[n++] = "an assignment";
            remove_all(expected, assignment, 4);
            remove_characters(expected, "=");
        }
    }
    return n;
}

static int
yyreport_syntax_error(const yypcontext_t *context, Parser *parser, void *scanner)
{
    yysymbol_kind_t tokens[YYNTOKENS];
    const char *shown[SHOWN_MAX + 4];
    Expected expected = {{false}};
    Span place = *yypcontext_location(context);
    Buf text;

    (void)scanner;
    if (is_same_line(parser, place))
        return 0;
    parser->last_error = place.lo;
    int count = yypcontext_expected_tokens(context, tokens, YYNTOKENS);
    for (int i = 0; i < count; i++)
        expected.has[tokens[i]] = true;
    int n = group_expected(&expected, shown), total = n;
    for (int i = 1; i <= YYNTOKENS; i++) { /* token 0, the end of the file, comes last */
        if (!expected.has[i % YYNTOKENS])
            continue;
        if (n < SHOWN_MAX) /* a name in front of a loop's body is no other */
            shown[n++] = i == YYSYMBOL_NAME && expected.has[YYTRANSLATE('{')] ? "'while'" : yysymbol_name((yysymbol_kind_t)(i % YYNTOKENS));
        total++;
    }

    buf_init(&text, parser->arena);
    buf_add(&text, total > 0 && total == n ? "expected " : "unexpected ");
    for (int i = 0; i < n && total == n; i++)
        buf_printf(&text, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", shown[i]);
    if (total > 0 && total == n)
        buf_add(&text, ", found ");
    yysymbol_kind_t found = yypcontext_token(context);
    report_syntax(parser, place, &text,
                  &(SyntaxContext){.is_name = found == YYSYMBOL_NAME,
                                   .is_end = found == YYSYMBOL_YYEOF,
                                   .closes = expected.has[YYTRANSLATE(')')] ||
                                             expected.has[YYTRANSLATE(']')],
                                   .statement = expected.has[YYTRANSLATE(';')],
                                   .subscript = expected.has[YYTRANSLATE(']')] &&
                                                expected.has[YYTRANSLATE(',')]});
    return 0;
}

/* Called for what is not a syntax error: the stack is full. */
static void
tile_parse_error(const Span *place, Parser *parser, void *scanner, const char *message)
{
    (void)scanner;
    (void)message;
    diag_error(parser->diag, *place, "E-NESTING: the program is nested too deeply here");
}
